/* What the test programs share: a condition that does not hold ends the job with its place. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			MPI_Abort(MPI_COMM_WORLD, 3); \
		} \
	} while (0)

static int rank, size;

static inline void begin(int *argc, char ***argv)
{
	CHECK(MPI_Init(argc, argv) == MPI_SUCCESS);
	CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS);
}

/* The class of an error code: other libraries have more codes than classes. */
static inline int class_of(int code)
{
	int class;
	return MPI_Error_class(code, &class) == MPI_SUCCESS ? class : -1;
}

/* Ends; the first rank says that all went well. */
static inline int end(const char *name)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s: %d ranks: ok\n", name, size);
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	return 0;
}

static inline unsigned char pattern(long at, int salt)
{
	return (unsigned char)(at * 7 + at / 251 + salt);
}

static inline void fill(unsigned char *buffer, long length, int salt)
{
	for (long i = 0; i < length; i++)
		buffer[i] = pattern(i, salt);
}

static inline int holds(const unsigned char *buffer, long length, int salt)
{
	for (long i = 0; i < length; i++)
		if (buffer[i] != pattern(i, salt))
			return 0;
	return 1;
}

#endif
