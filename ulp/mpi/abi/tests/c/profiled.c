/* A profiling layer in the program itself: it sees the program's calls, and not those that the library makes of its own. */
#include "check.h"

static int sends, barriers;

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
	sends++;
	return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
	barriers++;
	return PMPI_Barrier(comm);
}

int main(int argc, char **argv)
{
	int value = 4;
	MPI_Request request;
	begin(&argc, &argv);
	MPI_Irecv(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
	MPI_Send(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
	CHECK(sends == 1 && barriers == 1);
	return end("profiled");
}
