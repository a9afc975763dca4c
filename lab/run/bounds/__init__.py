"""`qclimb lab run bounds`: recorded traffic replayed under PIAS and QCLIMB's variants, in the paper's panels."""
