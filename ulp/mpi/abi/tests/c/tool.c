/* A profiling tool as a library of its own, linked with a program or preloaded: it sees the program's calls and says at the end how many they were. */
#include <mpi.h>
#include <stdio.h>

static int begun, sends, receives, created;

int MPI_Init(int *argc, char ***argv)
{
	begun++;
	return PMPI_Init(argc, argv);
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
	sends++;
	return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status)
{
	receives++;
	return PMPI_Recv(buffer, count, type, from, tag, comm, status);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
	created++;
	return PMPI_Comm_dup(comm, newcomm);
}

int MPI_Finalize(void)
{
	int rank;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	fprintf(stderr, "tool: rank %d: %d init, %d sends, %d receives, %d communicators\n", rank, begun, sends, receives, created);
	return PMPI_Finalize();
}
