/* Short messages to and fro, each checked, while the adapters of both ends fail at once: somebody
 * has them fail, once the file OUTSIDE is there. Goes on until the connections of each rank have
 * been made anew five times. */
#include "check.h"
#include <ferriband_mpi.h>

enum { WORDS = 100 };

/* How often the connections of the rank that has had the fewest were made anew. */
static long heals(void)
{
	struct ferriband_mpi_stats stats;
	long mine, least;
	ferriband_mpi_get_stats(&stats);
	mine = (long)stats.heals;
	CHECK(MPI_Allreduce(&mine, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD) == MPI_SUCCESS);
	return least;
}

int main(int argc, char **argv)
{
	const char *outside = getenv("OUTSIDE");
	begin(&argc, &argv);
	CHECK(outside != NULL && size % 2 == 0);
	CHECK(heals() == 0);
	if (rank == 0)
		CHECK(fclose(fopen(outside, "w")) == 0);
	for (long round = 0; heals() < 5; round++) {
		long said[WORDS], heard[WORDS];
		for (long i = 0; i < WORDS; i++)
			said[i] = round * 1000 + rank + i;
		CHECK(MPI_Sendrecv(said, WORDS, MPI_LONG, rank ^ 1, 1, heard, WORDS, MPI_LONG, rank ^ 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		for (long i = 0; i < WORDS; i++)
			CHECK(heard[i] == round * 1000 + (rank ^ 1) + i);
	}
	return end("bothends");
}
