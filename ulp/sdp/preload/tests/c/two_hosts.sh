# Runs a server and a client on two hosts: two network namespaces, joined by a veth pair. Reads
# from the environment: SERVER and CLIENT, the command lines; HALF, which is done at the client's
# host once CLIENT says "half".
# Nothing of it outlives this script: run it under `unshare --user --map-root-user --net`.
set -e
ip link set lo up
unshare --net sleep 1000 &
other=$!
# the other's namespace is there once it is another than ours
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link add eth0 type veth peer name eth0 netns $other
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
nsenter --target $other --net sh -c \
    'ip link set lo up; ip addr add 192.0.2.2/24 dev eth0; ip link set eth0 up'
here=$(mktemp -d)
trap 'kill $other; rm -r "$here"' EXIT
mkfifo "$here/in" "$here/listens"
nsenter --target $other --net sh -c "$SERVER" > "$here/listens" &
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
