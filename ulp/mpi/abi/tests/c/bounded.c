/* Rank 0 sends to all others while none of them looks, so that nothing is acknowledged: what it
 * keeps meanwhile stays within the bound (argument: bytes; 0: the default's), and what finds no
 * room waits. Then all comes. */
#include "check.h"
#include <ferriband_mpi.h>
#include <unistd.h>

enum { COUNT = 100, LENGTH = 4000, SEGMENT = 16384, MOST = 8 };

int main(int argc, char **argv)
{
	static unsigned char out[MOST][COUNT][LENGTH], in[LENGTH];
	static MPI_Request requests[MOST * COUNT];
	struct ferriband_mpi_stats stats;
	uint64_t most = 0;
	int posted = 0, bound;

	begin(&argc, &argv);
	CHECK(size <= MOST && argc == 2);
	bound = atoi(argv[1]);
	/* All are connected. */
	for (int peer = 1; peer < size; peer++)
		if (rank == 0)
			CHECK(MPI_Send(&peer, 1, MPI_INT, peer, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
		else if (rank == peer)
			CHECK(MPI_Recv(in, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	if (rank == 0) {
		for (int i = 0; i < COUNT; i++)
			for (int peer = 1; peer < size; peer++) {
				fill(out[peer][i], LENGTH, peer + i);
				CHECK(MPI_Isend(out[peer][i], LENGTH, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[posted++]) == MPI_SUCCESS);
				CHECK(ferriband_mpi_get_stats(&stats) == 0);
				most = stats.log > most ? stats.log : most;
			}
		if (bound) {
			/* Each peer has one segment in any case. */
			CHECK(most <= (uint64_t)bound + (size - 1) * SEGMENT);
			CHECK(stats.log_full > 0);
		} else {
			/* The bound of each peer alone is much more. */
			CHECK(most > (uint64_t)(size - 1) * 4 * SEGMENT);
		}
		CHECK(MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
		CHECK(ferriband_mpi_get_stats(&stats) == 0);
		CHECK(stats.heals == 0);
	} else {
		usleep(500000);
		for (int i = 0; i < COUNT; i++) {
			CHECK(MPI_Recv(in, LENGTH, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			CHECK(holds(in, LENGTH, rank + i));
		}
	}
	return end("bounded");
}
