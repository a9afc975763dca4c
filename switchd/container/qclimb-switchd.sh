#!/bin/sh
# Starts one qclimb-switchd a switch, or one an ASIC where there are several. gNMI is served on the management interface
# and on loopback, at 9339 (IANA's port), 9340 for asic1, and so on, with the certificates of CONFIG_DB GNMI|certs.
set -eu
trap '' HUP # SONiC's daemons ignore it (sonic_py_common, daemon_base); what is started here inherits that
port=${QCLIMB_PORT:-9339}
count=${NAMESPACE_COUNT:-1}
common="--backend swsscommon --tls-from-config-db"
if [ "$count" -le 1 ]; then
	exec qclimb-switchd $common --listen "${QCLIMB_LISTEN:-$port}"
fi
started=
stop() {
	trap - TERM INT
	kill $started 2>/dev/null || true
	wait
}
trap 'stop; exit 0' TERM INT
asic=0
while [ "$asic" -lt "$count" ]; do
	qclimb-switchd $common --namespace "asic$asic" --listen "$((port + asic))" &
	started="$started $!"
	asic=$((asic + 1))
done
# One that ends takes the others along: SONiC then starts all of them anew.
while kill -0 $started 2>/dev/null; do
	sleep 2 &
	wait $! || true
done
stop
exit 1
