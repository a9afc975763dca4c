#!/bin/sh
# Starts qclimb-switchd on port 9339 (IANA's for gNMI), with the certificates that SONiC's own gNMI server is given (CONFIG_DB GNMI|certs).
set -eu
exec qclimb-switchd --listen "${QCLIMB_LISTEN:-0.0.0.0:9339}" --backend swsscommon --tls-from-config-db
