/* Two ranks exchange numbered messages, short ones and long ones, until a file is there: what is
 * done meanwhile to the fabric below them is a test's. Each says what it knows of that at the end. */
#include <ferriband_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
			MPI_Abort(MPI_COMM_WORLD, 1); \
		} \
	} while (0)

enum { LONG = 32768, EACH = 16 };

/* The numbers of a round, as many as it has; the first says whether it is the last. */
static void fill(long *numbers, long round, int count, int is_last)
{
	for (int i = 0; i < count; i++)
		numbers[i] = round * 7 + i;
	numbers[0] = is_last ? -1 : round;
}

static int check(const long *numbers, long round, int count)
{
	CHECK(numbers[0] == -1 || numbers[0] == round);
	for (int i = 1; i < count; i++)
		CHECK(numbers[i] == round * 7 + i);
	return numbers[0] == -1;
}

int main(int argc, char **argv)
{
	static long out[LONG], in[LONG];
	struct ferriband_mpi_stats stats;
	int rank, ranks, is_last = 0;
	long round = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	CHECK(ranks == 2 && argc == 2);
	for (; !is_last; round++) {
		int count = round % EACH == 0 ? LONG : 1;
		if (rank == 0) {
			is_last = access(argv[1], F_OK) == 0;
			fill(out, round, count, is_last);
			MPI_Send(out, count, MPI_LONG, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(in, count, MPI_LONG, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(check(in, round, count) == is_last);
			usleep(500);
		} else {
			MPI_Recv(in, count, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			is_last = check(in, round, count);
			fill(out, round, count, is_last);
			MPI_Send(out, count, MPI_LONG, 0, 2, MPI_COMM_WORLD);
		}
		if (rank == 0 && round % 100 == 0) {
			struct timespec now;
			clock_gettime(CLOCK_REALTIME, &now);
			printf("round %ld at %lld\n", round, now.tv_sec * 1000LL + now.tv_nsec / 1000000);
			fflush(stdout);
		}
	}
	CHECK(ferriband_mpi_get_stats(&stats) == 0);
	printf("rank %d: %ld rounds, %llu heals, %llu migrations\n", rank, round, (unsigned long long)stats.heals,
		(unsigned long long)stats.migrations);
	fflush(stdout);
	MPI_Finalize();
	return 0;
}
