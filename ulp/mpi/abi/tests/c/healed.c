/* Rank 0 reads lines. With each one it has its connections fail, says what it knows of the heal
 * that follows, and waits for the next: whoever runs it looks meanwhile. Rank 1 says its
 * process. */
#include "check.h"
#include <ferriband_mpi.h>
#include <unistd.h>

static void exchange(void)
{
	for (long i = 0; i < 8; i++) {
		long heard = -1;
		if (rank == 0) {
			CHECK(MPI_Send(&i, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
			CHECK(MPI_Recv(&heard, 1, MPI_LONG, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		} else {
			CHECK(MPI_Recv(&heard, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			CHECK(MPI_Send(&i, 1, MPI_LONG, 0, 2, MPI_COMM_WORLD) == MPI_SUCCESS);
		}
		CHECK(heard == i);
	}
}

/* What this rank is told of its heals, of which there were so many at the least: the other end may
 * have been told of one, and notice another. */
static void look(uint64_t count)
{
	struct ferriband_mpi_stats stats;
	struct ferriband_mpi_heal heals[4], last;
	uint64_t longest = 0;
	int found = ferriband_mpi_get_heals(heals, 4);

	CHECK(ferriband_mpi_get_stats(&stats) == 0);
	CHECK(stats.heals >= count && stats.healing == 0);
	CHECK(found == (int)(stats.heals < 4 ? stats.heals : 4));
	for (int i = 0; i < found; i++) {
		uint64_t whole = heals[i].fence_ns + heals[i].reconnect_ns + heals[i].replay_ns;
		CHECK(heals[i].peer == 1);
		CHECK(heals[i].cause == FERRIBAND_MPI_HEAL_QP_ERROR || heals[i].cause == FERRIBAND_MPI_HEAL_PEER);
		CHECK(heals[i].at_ms > 0 && heals[i].tries > 0 && whole > 0);
		CHECK(i == 0 || heals[i].at_ms >= heals[i - 1].at_ms);
		longest = whole > longest ? whole : longest;
	}
	CHECK(stats.heals_longest_ns >= longest && stats.heals_total_ns >= stats.heals_longest_ns);
	CHECK(ferriband_mpi_get_heals(&last, 1) == (count > 0));
	CHECK(count == 0 || memcmp(&last, &heals[found - 1], sizeof last) == 0);
}

int main(int argc, char **argv)
{
	uint64_t count = 0;
	char line[64];
	int goes_on = 1;
	begin(&argc, &argv);
	CHECK(size == 2);
	exchange();
	if (rank == 0)
		look(0);
	if (rank == 1) {
		printf("process %d\n", getpid());
		fflush(stdout);
	}
	while (1) {
		if (rank == 0)
			goes_on = fgets(line, sizeof line, stdin) != NULL;
		if (rank == 0 && goes_on)
			CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
		CHECK(MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
		if (!goes_on)
			break;
		exchange();
		if (rank == 0) {
			look(++count);
			printf("healed\n");
			fflush(stdout);
		}
	}
	return end("healed");
}
