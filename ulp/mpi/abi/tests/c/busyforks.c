/* Children of ranks whose other threads are inside the library at the fork: none hangs, and the job goes on. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 40 };

static volatile int stop;

/* Messages and collectives, until all ranks have stopped. */
static void *talk(void *of)
{
	MPI_Comm comm = *(MPI_Comm *)of;
	int to = (rank + 1) % size, from = (rank + size - 1) % size, all = 0;

	while (!all) {
		int mine = stop, value = rank, got;

		CHECK(MPI_Sendrecv(&value, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
		CHECK(got == from);
		CHECK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS);
	}
	return NULL;
}

/* What belongs to the process and no communicator. */
static void *note(void *unused)
{
	while (!stop) {
		MPI_Info info;
		int class;

		CHECK(MPI_Info_create(&info) == MPI_SUCCESS);
		CHECK(MPI_Info_set(info, "key", "value") == MPI_SUCCESS);
		CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
		CHECK(MPI_Add_error_class(&class) == MPI_SUCCESS);
		CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS);
	}
	return unused;
}

/* What a child does, by its number. */
static void child(int nth)
{
	int flag, value;
	MPI_Info info;

	alarm(20);
	CHECK(freopen("/dev/null", "w", stderr) != NULL);
	if (MPI_Initialized(&flag) || !flag || MPI_Finalized(&flag) || !flag)
		_exit(9);
	switch (nth % 4) {
	case 0:
		exit(MPI_Finalize());
	case 1:
		if (MPI_Info_create(&info) || MPI_Info_set(info, "key", "value") || MPI_Info_free(&info))
			_exit(8);
		_exit(0);
	case 2:
		/* The initial error handler ends the child. */
		MPI_Comm_rank(MPI_COMM_WORLD, &value);
		_exit(0);
	default:
		exit(0);
	}
}

int main(int argc, char **argv)
{
	int provided;
	MPI_Comm comms[2];
	pthread_t threads[3];

	CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
	CHECK(provided == MPI_THREAD_MULTIPLE);
	CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS);
	for (int nth = 0; nth < 2; nth++) {
		CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[nth]) == MPI_SUCCESS);
		CHECK(pthread_create(&threads[nth], NULL, talk, &comms[nth]) == 0);
	}
	CHECK(pthread_create(&threads[2], NULL, note, NULL) == 0);
	for (int nth = 0; nth < CHILDREN; nth++) {
		pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (pid == 0)
			child(nth);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status));
		CHECK((WEXITSTATUS(status) == 0) == (nth % 4 != 2));
	}
	stop = 1;
	for (int nth = 0; nth < 3; nth++)
		CHECK(pthread_join(threads[nth], NULL) == 0);
	for (int nth = 0; nth < 2; nth++)
		CHECK(MPI_Comm_free(&comms[nth]) == MPI_SUCCESS);
	return end("busyforks");
}
