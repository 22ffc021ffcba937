/* Persistent sends and receives, and generalized requests. */
#include "check.h"

#define LONG 50000

static int left, right;

static void ring(int length)
{
	static unsigned char out[4][LONG], in[4][LONG];
	unsigned char *room = malloc(LONG + MPI_BSEND_OVERHEAD);
	MPI_Request requests[8];
	MPI_Status statuses[8];
	int order[8], count, flag, index, got;
	MPI_Buffer_attach(room, LONG + MPI_BSEND_OVERHEAD);
	MPI_Send_init(out[0], length, MPI_BYTE, right, 0, MPI_COMM_WORLD, &requests[4]);
	MPI_Ssend_init(out[1], length, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[5]);
	MPI_Rsend_init(out[2], length, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[6]);
	MPI_Bsend_init(out[3], length, MPI_BYTE, right, 3, MPI_COMM_WORLD, &requests[7]);
	for (int i = 0; i < 4; i++)
		MPI_Recv_init(in[i], LONG, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : left, i, MPI_COMM_WORLD, &requests[i]);
	/* Inactive ones are as if they were not there. */
	MPI_Waitall(8, requests, statuses);
	CHECK(statuses[3].MPI_SOURCE == MPI_ANY_SOURCE && requests[3] != MPI_REQUEST_NULL);
	MPI_Waitany(8, requests, &index, &statuses[0]);
	CHECK(index == MPI_UNDEFINED);
	MPI_Test(&requests[0], &flag, &statuses[0]);
	CHECK(flag && requests[0] != MPI_REQUEST_NULL);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 4; i++) {
			fill(out[i], length, rank + round + i);
			memset(in[i], 0, length);
		}
		MPI_Startall(4, requests);
		CHECK(class_of(MPI_Start(&requests[0])) == MPI_ERR_REQUEST);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Startall(4, requests + 4);
		if (round % 3 == 0) {
			MPI_Waitall(8, requests, statuses);
		} else if (round % 3 == 1) {
			for (int done = 0; done < 8; done += count) {
				MPI_Status some[8];
				MPI_Waitsome(8, requests, &count, order, some);
				for (int i = 0; i < count; i++)
					statuses[order[i]] = some[i];
			}
		} else {
			MPI_Status one;
			for (int done = 0; done < 8; done++) {
				MPI_Waitany(8, requests, &index, &one);
				CHECK(index >= 0 && index < 8);
				statuses[index] = one;
			}
		}
		for (int i = 0; i < 4; i++) {
			MPI_Get_count(&statuses[i], MPI_BYTE, &got);
			CHECK(got == length && statuses[i].MPI_SOURCE == left && statuses[i].MPI_TAG == i);
			CHECK(holds(in[i], length, left + round + i));
			CHECK(requests[i] != MPI_REQUEST_NULL && requests[4 + i] != MPI_REQUEST_NULL);
		}
	}
	/* Cancelled and started again; freed while active. */
	MPI_Start(&requests[0]);
	MPI_Cancel(&requests[0]);
	MPI_Wait(&requests[0], &statuses[0]);
	MPI_Test_cancelled(&statuses[0], &flag);
	CHECK(flag);
	MPI_Start(&requests[0]);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Start(&requests[4]);
	MPI_Request_free(&requests[4]);
	MPI_Wait(&requests[0], &statuses[0]);
	CHECK(holds(in[0], length, left + 9) && requests[4] == MPI_REQUEST_NULL);
	for (int i = 0; i < 8; i++)
		if (i != 4) {
			MPI_Request_free(&requests[i]);
			CHECK(requests[i] == MPI_REQUEST_NULL);
		}
	void *back;
	MPI_Buffer_detach(&back, &got);
	CHECK(back == room);
	free(room);
}

static void nobody(void)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int value = 1;
	MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
	MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]);
	for (int round = 0; round < 3; round++) {
		MPI_Startall(2, requests);
		MPI_Waitall(2, requests, statuses);
		CHECK(statuses[1].MPI_SOURCE == MPI_PROC_NULL);
	}
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
	MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]);
	CHECK(class_of(MPI_Start(&requests[0])) == MPI_ERR_REQUEST);
	MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static int queried, released, cancels;

static int query(void *state, MPI_Status *status)
{
	queried++;
	MPI_Status_set_elements(status, MPI_INT, *(int *)state);
	MPI_Status_set_cancelled(status, cancels);
	status->MPI_SOURCE = 11;
	status->MPI_TAG = 12;
	return MPI_SUCCESS;
}

static int release(void *state)
{
	(void)state;
	released++;
	return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
	(void)state;
	cancels += !complete;
	return MPI_SUCCESS;
}

static void general(void)
{
	MPI_Request request, copy;
	MPI_Status status;
	int flag, count, state = 6;
	MPI_Grequest_start(query, release, cancel, &state, &request);
	MPI_Test(&request, &flag, &status);
	CHECK(!flag && queried == 0);
	MPI_Grequest_complete(request);
	MPI_Request_get_status(request, &flag, &status);
	CHECK(flag && queried == 1 && released == 0 && status.MPI_SOURCE == 11);
	MPI_Wait(&request, &status);
	MPI_Get_count(&status, MPI_INT, &count);
	CHECK(request == MPI_REQUEST_NULL && count == 6 && status.MPI_TAG == 12 && released == 1);
	MPI_Grequest_start(query, release, cancel, &state, &request);
	MPI_Cancel(&request);
	CHECK(cancels == 1);
	MPI_Grequest_complete(request);
	MPI_Waitall(1, &request, &status);
	MPI_Test_cancelled(&status, &flag);
	CHECK(flag && released == 2);
	/* Freed first, complete later. */
	MPI_Grequest_start(query, release, cancel, &state, &request);
	copy = request;
	MPI_Request_free(&request);
	CHECK(request == MPI_REQUEST_NULL && released == 2);
	MPI_Grequest_complete(copy);
	CHECK(released == 3);
	MPI_Isend(&state, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
	CHECK(class_of(MPI_Grequest_complete(request)) == MPI_ERR_REQUEST);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	right = (rank + 1) % size;
	left = (rank + size - 1) % size;
	ring(0);
	ring(100);
	ring(LONG);
	nobody();
	general();
	return end("persistent");
}
