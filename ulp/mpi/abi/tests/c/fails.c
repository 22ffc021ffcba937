/* One rank goes in a way that its argument says; the others wait for it for ever. */
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int value = 0;
	begin(&argc, &argv);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1) {
		if (!strcmp(argv[1], "kill")) {
			struct timespec now;
			clock_gettime(CLOCK_MONOTONIC, &now);
			printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
			fflush(stdout);
			raise(SIGKILL);
		}
		if (!strcmp(argv[1], "abort"))
			MPI_Abort(MPI_COMM_WORLD, 42);
		if (!strcmp(argv[1], "exit"))
			exit(0);
		if (!strcmp(argv[1], "error"))
			MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
		if (!strcmp(argv[1], "status")) {
			MPI_Barrier(MPI_COMM_WORLD);
			MPI_Finalize();
			return 9;
		}
	}
	if (!strcmp(argv[1], "status")) {
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Finalize();
		return 0;
	}
	/* A child that outlives its rank, unless the launcher ends it, which it cannot when it is killed itself. */
	if (rank == 0 && strcmp(argv[1], "wait") && fork() == 0)
		for (;;)
			pause();
	MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return 0;
}
