# Programs of four ranks where /dev/shm is a file system of 64 KiB that is full, in a mount namespace of their own.
set -e
# a place of its own for run-time files: here the user is called root, whose place in /tmp may be the true root's
mount -t tmpfs tmpfs /run
mkdir -p -m 755 /run/user
mkdir -m 700 /run/user/0
mount -t tmpfs -o size=64k tmpfs /dev/shm
dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null || true
test "$(df --output=avail /dev/shm | tail -n 1)" -eq 0
FERRIBAND=$1
shift
for program in "$@"; do
	"$FERRIBAND" mpirun -n 4 --timeout 300 "$program"
	"$FERRIBAND" mpirun -n 4 --timeout 300 --same-host verbs "$program"
done
ls /dev/shm
