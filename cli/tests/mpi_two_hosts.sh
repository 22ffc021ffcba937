# Two hosts out of two network namespaces, in a user namespace of their own; then programs of 2 and
# of 4 ranks on them, or behind -- the command that is given, with @HOSTS@ for their names.
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
if [ "$1" = -- ]; then
	shift
	for word; do
		[ "$word" != @HOSTS@ ] || word=/proc/$a/ns/net,/proc/$b/ns/net
		shift
		set -- "$@" "$word"
	done
	status=0
	"$@" || status=$?
	exit $status
fi
FERRIBAND=$1
shift
if [ -n "$COUNT" ]; then
	# Packets that the first host has sent, and those that went as frames, once there are $COUNT or the program has ended.
	"$FERRIBAND" mpirun -n 2 --timeout 300 --netns /proc/$a/ns/net,/proc/$b/ns/net "$1" >/dev/null &
	job=$!
	packets=0
	while [ "$packets" -lt "$COUNT" ] && kill -0 $job 2>/dev/null; do
		sleep 0.1
		counters=$(nsenter --net=/proc/$a/ns/net "$FERRIBAND" counters --all)
		count() { echo "$counters" | sed -n "s/.* $1  *\([0-9]*\) .*/\1/p"; }
		packets=$(count port_xmit_packets)
		packets=${packets:-0}
	done
	echo "$packets $(count tx_frames)"
	kill $job 2>/dev/null || true
	wait $job || true
	exit
fi
for program in "$@"; do
	for ranks in 2 4; do
		"$FERRIBAND" mpirun -n $ranks --timeout 300 --netns /proc/$a/ns/net,/proc/$b/ns/net "$program"
	done
done
