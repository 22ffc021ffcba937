/* What channels that nobody uses cost: the first two ranks talk, 8 bytes at a time, while all others, which have each opened a channel to both, sleep. The median of
 * rounds, in microseconds one way. Arguments: rounds, messages of a round, messages before (a few open no channel). */
#include "check.h"

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	int rounds = argc > 1 ? atoi(argv[1]) : 101, messages = argc > 2 ? atoi(argv[2]) : 2000;
	int before = argc > 3 ? atoi(argv[3]) : 40;
	char word[8] = "12345678";
	double *took = calloc(rounds, sizeof *took);

	CHECK(size >= 2 && took);
	/* Enough for a channel, then one that says that all have come. */
	for (int i = 0; i < before; i++)
		for (int to = 0; to < 2; to++)
			if (rank >= 2) {
				MPI_Send(word, 8, MPI_BYTE, to, 1, MPI_COMM_WORLD);
			} else if (rank == to) {
				for (int from = 2; from < size; from++)
					MPI_Recv(word, 8, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			}
	if (rank >= 2)
		MPI_Recv(word, 8, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		for (int round = -1; round < rounds; round++) {
			double begun = MPI_Wtime();
			for (int i = 0; i < messages; i++)
				if (rank == 0) {
					MPI_Send(word, 8, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
					MPI_Recv(word, 8, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				} else {
					MPI_Recv(word, 8, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
					MPI_Send(word, 8, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
				}
			if (round >= 0)
				took[round] = (MPI_Wtime() - begun) * 1e6 / messages / 2;
		}
	if (rank == 0) {
		for (int to = 2; to < size; to++)
			MPI_Send(word, 8, MPI_BYTE, to, 2, MPI_COMM_WORLD);
		qsort(took, rounds, sizeof *took, compare);
		printf("idle: %d others: %.3f us one way (least %.3f)\n", size - 2, took[rounds / 2], took[0]);
	}
	free(took);
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}
