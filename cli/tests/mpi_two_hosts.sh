# Two hosts out of two network namespaces, in a user namespace of their own; then the command that is given, with @HOSTS@ for their names.
set -e
own=$(readlink /proc/self/ns/net)
unshare -n sleep 600 & a=$!
unshare -n sleep 600 & b=$!
trap 'kill $a $b' EXIT
for one in $a $b; do
	while [ "$(readlink /proc/$one/ns/net)" = "$own" ]; do sleep 0.02; done
done
ip link add va netns $a type veth peer name vb netns $b
set_up() {
	nsenter --net=/proc/$1/ns/net ip link set lo up
	nsenter --net=/proc/$1/ns/net ip addr add $3/24 dev $2
	nsenter --net=/proc/$1/ns/net ip link set $2 up
}
set_up $a va 10.99.0.1
set_up $b vb 10.99.0.2
FERRIBAND=$1
shift
for program in "$@"; do
	for ranks in 2 4; do
		"$FERRIBAND" mpirun -n $ranks --timeout 300 --netns /proc/$a/ns/net,/proc/$b/ns/net "$program"
	done
done
