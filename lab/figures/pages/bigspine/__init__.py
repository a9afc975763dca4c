"""Big-Spine (HPSR'24)."""
