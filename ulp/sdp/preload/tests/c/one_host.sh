# Runs a server and a client on one host, a network namespace with an address of its own beside
# 127.0.0.1. Reads from the environment: SERVER and CLIENT, the command lines; HALF, which is done
# once CLIENT says "half".
# Nothing of it outlives this script: run it under `unshare --user --map-root-user --net`.
set -e
ip link set lo up
ip link add eth0 type veth peer name eth1
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip link set eth1 up
here=$(mktemp -d)
trap 'rm -r "$here"' EXIT
mkfifo "$here/in" "$here/listens"
sh -c "$SERVER" > "$here/listens" &
server=$!
read -r _ < "$here/listens"
sh -c "$CLIENT" < "$here/in" > "$here/out" &
client=$!
exec 3> "$here/in"
if [ -n "$HALF" ]; then
    while kill -0 $client && ! grep -qs half "$here/out"; do sleep 0.05; done
    sh -c "$HALF" >&2
    echo on >&3
fi
wait $client || echo "the client: $?"
cat "$here/out"
wait $server || echo "the server: $?"
