#!/bin/sh
# What SONiC's containers do first: tell the container's state where SONiC manages it (sonic-ctrmgrd).
set -eu
script=/usr/share/sonic/scripts/container_startup.py
[ ! -f "$script" ] || "$script" -f qclimb -o "${RUNTIME_OWNER:-local}" -v "${IMAGE_VERSION:-}"
