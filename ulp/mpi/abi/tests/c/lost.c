/* Ranks of two hosts (even ones on the one, odd ones on the other) lose each other; with "return" the ranks of each host go on without the others, with
   "fatal" the job ends. Needs four ranks. Says when it may be cut off, and then talks until it is. */
#include "check.h"
#include <time.h>

int main(int argc, char **argv)
{
	static char buffer[1 << 16];
	int other, error = MPI_SUCCESS, count = 0, value;
	MPI_Request request;
	begin(&argc, &argv);
	CHECK(size == 4 && argc > 1);
	if (!strcmp(argv[1], "return"))
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	other = rank ^ 1;
	MPI_Barrier(MPI_COMM_WORLD);
	/* Nobody will ever answer to this one. */
	MPI_Irecv(&value, 1, MPI_INT, other, 9, MPI_COMM_WORLD, &request);
	while (error == MPI_SUCCESS) {
		int length = count % 3 ? 8 : sizeof buffer;
		if (rank % 2)
			error = MPI_Recv(buffer, length, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (error == MPI_SUCCESS)
			error = MPI_Send(buffer, length, MPI_CHAR, other, 1, MPI_COMM_WORLD);
		if (error == MPI_SUCCESS && rank % 2 == 0)
			error = MPI_Recv(buffer, length, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (count++ == 100 && rank == 0) {
			printf("talking\n");
			fflush(stdout);
		}
		/* Not for ever, should nobody cut them off. */
		CHECK(count < 20000000);
	}
	CHECK(class_of(error) == MPI_ERR_PROC_ABORTED);
	CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_PROC_ABORTED);
	CHECK(class_of(MPI_Send(buffer, 8, MPI_CHAR, other, 1, MPI_COMM_WORLD)) == MPI_ERR_PROC_ABORTED);
	CHECK(class_of(MPI_Send(buffer, sizeof buffer, MPI_CHAR, other, 1, MPI_COMM_WORLD)) == MPI_ERR_PROC_ABORTED);
	CHECK(class_of(MPI_Recv(buffer, 8, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPI_ERR_PROC_ABORTED);
	/* The neighbour is there. */
	other = rank ^ 2;
	for (int i = 0; i < 100; i++)
		CHECK(MPI_Sendrecv(&rank, 1, MPI_INT, other, 2, &value, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS && value == other);
	printf("rank %d went on\n", rank);
	MPI_Finalize();
	return 0;
}
