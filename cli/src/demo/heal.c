/* Two ranks exchange numbered messages until a connection has failed and was made anew, and a
 * little longer. Rank 0 says when they have begun, and at the end what came of it. */
#include <ferriband_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

/* Messages to and fro between two pauses. */
#define MANY 10
/* Microseconds of a pause: a program that computes. */
#define PAUSE 500
/* Pauses before rank 0 says that they have begun, and behind the heal. */
#define BEFORE 20
#define BEHIND 20
/* Nobody waits longer for a failure, in seconds. */
#define MOST 30.0

int main(int argc, char **argv)
{
	struct ferriband_mpi_stats stats;
	struct ferriband_mpi_heal heal;
	long next = 0, heard;
	int rank, behind = 0, goes_on = 1;
	double begun;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	begun = MPI_Wtime();
	for (int turn = 0; goes_on; turn++) {
		for (int i = 0; i < MANY; i++, next++) {
			if (rank == 0) {
				MPI_Send(&next, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
				MPI_Recv(&heard, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			} else {
				MPI_Recv(&heard, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				MPI_Send(&next, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
			}
			if (heard != next) {
				fprintf(stderr, "rank %d: message %ld came in the place of %ld\n", rank, heard, next);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
		}
		if (turn == BEFORE && rank == 0) {
			printf("begun\n");
			fflush(stdout);
		}
		ferriband_mpi_get_stats(&stats);
		behind += stats.heals > 0;
		goes_on = behind < BEHIND && MPI_Wtime() - begun < MOST;
		/* Rank 0 decides for both. */
		MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
		usleep(PAUSE);
	}
	if (rank == 0) {
		printf("rank 0: %ld messages to rank 1 and as many back, each once and in its turn\n", next);
		if (ferriband_mpi_get_heals(&heal, 1) == 1)
			printf("rank 0: the connection failed, was made anew after %.3f ms, and %llu bytes were sent again\n",
			       (double)(heal.fence_ns + heal.reconnect_ns + heal.replay_ns) / 1e6, (unsigned long long)heal.bytes);
	}
	MPI_Finalize();
	return stats.heals == 0;
}
