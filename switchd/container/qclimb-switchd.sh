#!/bin/sh
# Starts qclimb-switchd with the certificates that SONiC's own gNMI server is given (CONFIG_DB GNMI|certs) and port 9339 (IANA's for gNMI).
set -eu
certs() { sonic-db-cli CONFIG_DB hget 'GNMI|certs' "$1"; }
exec qclimb-switchd --listen "${QCLIMB_LISTEN:-0.0.0.0:9339}" --backend swsscommon \
	--tls-cert "$(certs server_crt)" --tls-key "$(certs server_key)" --tls-ca "$(certs ca_crt)"
