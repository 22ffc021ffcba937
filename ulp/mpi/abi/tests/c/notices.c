/* The last rank's connections fail while it only looks for messages, and nobody sends any: it
 * notices by what the adapter says by itself, and its connections are made anew before the next
 * message. The thread that hears of it is there while MPI is, and not afterwards. WATCHES in the
 * environment: threads of that name that are expected. */
#include "check.h"
#include <dirent.h>
#include <ferriband_mpi.h>
#include <unistd.h>

static int last;

static void exchange(long said)
{
	for (int other = 0; other < last; other++) {
		long heard = -1;
		if (rank == last) {
			CHECK(MPI_Send(&said, 1, MPI_LONG, other, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
			CHECK(MPI_Recv(&heard, 1, MPI_LONG, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			CHECK(heard == said + other);
		} else if (rank == other) {
			CHECK(MPI_Recv(&heard, 1, MPI_LONG, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			CHECK(heard == said);
			heard += rank;
			CHECK(MPI_Send(&heard, 1, MPI_LONG, last, 2, MPI_COMM_WORLD) == MPI_SUCCESS);
		}
	}
}

static uint64_t heals(void)
{
	struct ferriband_mpi_stats stats;
	CHECK(ferriband_mpi_get_stats(&stats) == 0);
	return stats.healing == 0 ? stats.heals : 0;
}

/* Threads of this process that have the name of the one that hears. */
static int watches(void)
{
	int count = 0;
	struct dirent *entry;
	DIR *tasks = opendir("/proc/self/task");
	if (tasks == NULL)
		return -1;
	while ((entry = readdir(tasks)) != NULL) {
		char path[300], name[32] = "";
		FILE *file;
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file != NULL && fgets(name, sizeof name, file) != NULL)
			count += strcmp(name, "ferriband-heal\n") == 0;
		if (file != NULL)
			fclose(file);
	}
	closedir(tasks);
	return count;
}

/* A thread gives itself its name once it runs, and is shown for a moment when it has ended. */
static int watches_become(int wanted)
{
	for (int i = 0; i < 1000 && watches() != wanted; i++)
		usleep(10000);
	return watches() == wanted;
}

int main(int argc, char **argv)
{
	const char *expected = getenv("WATCHES");
	int wanted = expected == NULL ? 1 : atoi(expected);
	begin(&argc, &argv);
	last = size - 1;
	exchange(5);
	CHECK(watches_become(wanted));
	for (int round = 1; round <= 3 && wanted == 1; round++) {
		double end = MPI_Wtime() + 1.5;
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == last)
			CHECK(ferriband_mpi_switch_setting("queue-pairs", "error") == 0);
		while (MPI_Wtime() < end) {
			int flag = 1;
			CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
			CHECK(!flag);
		}
		CHECK(rank != last || heals() >= (uint64_t)round);
		exchange(100 * round);
	}
	end("notices");
	if (!watches_become(0)) {
		fprintf(stderr, "notices: a thread is left\n");
		return 3;
	}
	return 0;
}
