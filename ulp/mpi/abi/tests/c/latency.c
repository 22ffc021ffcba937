/* Half a round trip between the first two ranks, in microseconds: the median over rounds, for lengths from 8 bytes to 4 KiB. */
#include "check.h"

static int by_value(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv)
{
	static char buffer[1 << 20];
	enum { ROUNDS = 101, TRIPS = 2000 };
	double times[ROUNDS];
	begin(&argc, &argv);
	for (int length = 8; length <= (1 << 20); length *= 8) {
		int trips = length > 8192 ? TRIPS / 40 : TRIPS;
		for (int round = 0; round < ROUNDS && rank < 2; round++) {
			double start = MPI_Wtime();
			for (int i = 0; i < trips; i++) {
				if (rank == 0) {
					MPI_Send(buffer, length, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
					MPI_Recv(buffer, length, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				} else {
					MPI_Recv(buffer, length, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
					MPI_Send(buffer, length, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
				}
			}
			times[round] = (MPI_Wtime() - start) / trips / 2 * 1e6;
		}
		qsort(times, ROUNDS, sizeof *times, by_value);
		if (rank == 0)
			printf("%7d B  %8.3f us (least %.3f)\n", length, times[ROUNDS / 2], times[0]);
	}
	/* Messages one way, 64 at a time. */
	for (int round = 0; round < ROUNDS && rank < 2; round++) {
		enum { WINDOW = 64 };
		MPI_Request requests[WINDOW];
		static double small[WINDOW];
		double start = MPI_Wtime();
		for (int i = 0; i < 200; i++) {
			for (int j = 0; j < WINDOW; j++) {
				if (rank == 0)
					MPI_Isend(&small[j], 1, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, &requests[j]);
				else
					MPI_Irecv(&small[j], 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, &requests[j]);
			}
			MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
			if (rank == 0)
				MPI_Recv(buffer, 4, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			else
				MPI_Send(buffer, 4, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
		}
		times[round] = 200.0 * WINDOW / (MPI_Wtime() - start) / 1e6;
	}
	qsort(times, ROUNDS, sizeof *times, by_value);
	if (rank == 0)
		printf("8 B, window 64: %.2f million messages a second\n", times[ROUNDS / 2]);
	MPI_Finalize();
	return 0;
}
