/* Ways to send and receive besides the plain ones: buffered, synchronous, ready, both at once, matched probes, cancelling; and statuses. */
#include "check.h"

#define LONG 100000

static int left, right;

static void exchanges(void)
{
	static int out[LONG], in[LONG];
	for (int count = 1; count <= LONG; count = count * 10) {
		MPI_Request requests[2];
		MPI_Status status;
		int got;
		for (int i = 0; i < count; i++)
			out[i] = rank * count + i;
		CHECK(MPI_Sendrecv(out, count, MPI_INT, right, 1, in, count, MPI_INT, left, 1, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
		CHECK(in[count - 1] == left * count + count - 1 && status.MPI_SOURCE == left);
		memset(in, 0, sizeof in);
		MPI_Isendrecv(out, count, MPI_INT, right, 2, in, count, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[0]);
		MPI_Wait(&requests[0], &status);
		MPI_Get_count(&status, MPI_INT, &got);
		CHECK(requests[0] == MPI_REQUEST_NULL && got == count && status.MPI_TAG == 2 && status.MPI_SOURCE == left);
		CHECK(in[0] == left * count && in[count - 1] == left * count + count - 1);
		/* Out and in of one buffer: twice around. */
		memcpy(in, out, sizeof in);
		MPI_Sendrecv_replace(in, count, MPI_INT, right, 3, left, 3, MPI_COMM_WORLD, &status);
		CHECK(in[count - 1] == left * count + count - 1);
		MPI_Isendrecv_replace(in, count, MPI_INT, left, 4, right, 4, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(1, &requests[1], MPI_STATUSES_IGNORE);
		CHECK(in[count - 1] == rank * count + count - 1);
	}
	/* Nobody on one side, or both. */
	MPI_Request request;
	MPI_Status status;
	int value = rank;
	MPI_Isendrecv(&value, 1, MPI_INT, rank, 5, in, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, &status);
	CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
	MPI_Isendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, in, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, &status);
	CHECK(status.MPI_SOURCE == rank && in[0] == rank);
	MPI_Isendrecv_replace(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request);
	MPI_Wait(&request, &status);
	CHECK(status.MPI_SOURCE == MPI_PROC_NULL && value == rank);
}

static void buffered(void)
{
	enum { MESSAGES = 20, EACH = 3000 };
	static unsigned char out[LONG], in[LONG];
	size_t room = MESSAGES * (EACH + MPI_BSEND_OVERHEAD);
	unsigned char *buffer = malloc(room);
	MPI_Request requests[MESSAGES], flush;
	MPI_Comm comm;
	void *got;
	int length;
	CHECK(class_of(MPI_Bsend(out, 1, MPI_BYTE, right, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
	MPI_Buffer_attach(buffer, room);
	CHECK(class_of(MPI_Buffer_attach(buffer, room)) == MPI_ERR_BUFFER);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MESSAGES; i++) {
			fill(out, EACH, rank + i);
			if (i % 2)
				MPI_Bsend(out, EACH, MPI_BYTE, right, i, MPI_COMM_WORLD);
			else
				MPI_Ibsend(out, EACH, MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[i]), MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		}
		for (int i = MESSAGES - 1; i >= 0; i--) {
			MPI_Recv(in, EACH, MPI_BYTE, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(holds(in, EACH, left + i));
		}
		MPI_Buffer_iflush(&flush);
		MPI_Wait(&flush, MPI_STATUS_IGNORE);
	}
	/* More than there is room for. */
	CHECK(class_of(MPI_Bsend(out, room, MPI_BYTE, right, 0, MPI_COMM_WORLD)) == MPI_ERR_BUFFER);
	MPI_Buffer_flush();
	CHECK(MPI_Buffer_detach(&got, &length) == MPI_SUCCESS && got == buffer && length == (int)room);
	/* A message too long to go unasked, in a communicator's own buffer, and then in nobody's. */
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	room = LONG + MPI_BSEND_OVERHEAD;
	buffer = realloc(buffer, room);
	for (int round = 0; round < 2; round++) {
		CHECK(MPI_Comm_attach_buffer(comm, round ? MPI_BUFFER_AUTOMATIC : buffer, room) == MPI_SUCCESS);
		for (int i = 0; i < 5; i++) {
			fill(out, LONG, rank + 5 * i);
			MPI_Bsend(out, LONG, MPI_BYTE, right, i, comm);
			fill(out, LONG, 99);
			MPI_Recv(in, LONG, MPI_BYTE, left, i, comm, MPI_STATUS_IGNORE);
			CHECK(holds(in, LONG, left + 5 * i));
			MPI_Comm_flush_buffer(comm);
		}
		MPI_Comm_iflush_buffer(comm, &flush);
		MPI_Wait(&flush, MPI_STATUS_IGNORE);
		MPI_Comm_detach_buffer(comm, &got, &length);
		CHECK(got == (round ? MPI_BUFFER_AUTOMATIC : buffer));
	}
	CHECK(class_of(MPI_Bsend(out, 1, MPI_BYTE, right, 0, comm)) == MPI_ERR_BUFFER);
	MPI_Comm_free(&comm);
	free(buffer);
}

/* Taken out in another order than they came, and received in another one still. */
static void matched(void)
{
	static const int lengths[4] = {0, 10, 9000, LONG};
	static const int order[4] = {2, 0, 3, 1};
	static unsigned char out[LONG], in[LONG];
	MPI_Message messages[4];
	MPI_Request requests[4];
	MPI_Status status;
	int flag, count;
	fill(out, LONG, rank);
	for (int i = 0; i < 4; i++)
		MPI_Isend(out, lengths[i], MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[i]);
	for (int i = 3; i >= 0; i--) {
		for (flag = 0; !flag;)
			MPI_Improbe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &flag, &messages[i], &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		CHECK(count == lengths[i] && status.MPI_SOURCE == left && status.MPI_TAG == i);
		MPI_Iprobe(left, i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		CHECK(!flag);
	}
	for (int i = 0; i < 4; i++) {
		MPI_Mrecv(in, LONG, MPI_BYTE, &messages[order[i]], &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		CHECK(count == lengths[order[i]] && holds(in, count, left));
	}
	MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void matched_and_received(void)
{
	static unsigned char out[LONG], in[LONG];
	MPI_Message message;
	MPI_Request send, receive;
	MPI_Status status;
	int count, flag;
	static const int lengths[4] = {0, 10, 9000, LONG};
	fill(out, LONG, rank);
	for (int i = 0; i < 4; i++) {
		memset(in, 0, sizeof in);
		MPI_Issend(out, lengths[i], MPI_BYTE, right, i, MPI_COMM_WORLD, &send);
		MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		CHECK(!flag && status.MPI_TAG == i);
		if (i % 2) {
			MPI_Mrecv(in, LONG, MPI_BYTE, &message, &status);
		} else {
			MPI_Imrecv(in, LONG, MPI_BYTE, &message, &receive);
			MPI_Wait(&receive, &status);
		}
		MPI_Get_count(&status, MPI_BYTE, &count);
		CHECK(message == MPI_MESSAGE_NULL && count == lengths[i] && status.MPI_SOURCE == left && holds(in, count, left));
		MPI_Wait(&send, MPI_STATUS_IGNORE);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Mprobe(MPI_PROC_NULL, 7, MPI_COMM_WORLD, &message, &status);
	CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
	MPI_Mrecv(in, 1, MPI_BYTE, &message, &status);
	MPI_Get_count(&status, MPI_BYTE, &count);
	CHECK(message == MPI_MESSAGE_NULL && count == 0 && status.MPI_TAG == MPI_ANY_TAG);
	CHECK(class_of(MPI_Mrecv(in, 1, MPI_BYTE, &message, &status)) != MPI_SUCCESS);
}

/* Receives are taken back here. A send is taken back or is received: never both, never neither. */
static void cancelled(void)
{
	static unsigned char out[LONG], in[LONG];
	MPI_Request request, sends[3];
	MPI_Status status;
	int flag, taken[3], lost[3];
	MPI_Irecv(in, 10, MPI_BYTE, left, 9, MPI_COMM_WORLD, &request);
	MPI_Cancel(&request);
	MPI_Wait(&request, &status);
	MPI_Test_cancelled(&status, &flag);
	CHECK(flag && request == MPI_REQUEST_NULL);
	MPI_Irecv(in, 10, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
	MPI_Cancel(&request);
	MPI_Request_free(&request);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < 3; i++) {
		int length = i == 2 ? LONG : 100;
		if (i == 0)
			MPI_Isend(out, length, MPI_BYTE, right, i, MPI_COMM_WORLD, &sends[i]);
		else
			MPI_Issend(out, length, MPI_BYTE, right, i, MPI_COMM_WORLD, &sends[i]);
		MPI_Cancel(&sends[i]);
		MPI_Wait(&sends[i], &status);
		MPI_Test_cancelled(&status, &taken[i]);
	}
	CHECK(taken[1] && taken[2]);
	MPI_Sendrecv(taken, 3, MPI_INT, right, 50, lost, 3, MPI_INT, left, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < 3; i++) {
		MPI_Iprobe(left, i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		CHECK(flag == !lost[i]);
		if (flag)
			MPI_Recv(in, LONG, MPI_BYTE, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	/* One that has met its receive is not taken back. */
	MPI_Irecv(in, LONG, MPI_BYTE, left, 60, MPI_COMM_WORLD, &request);
	MPI_Barrier(MPI_COMM_WORLD);
	fill(out, LONG, rank);
	MPI_Issend(out, LONG, MPI_BYTE, right, 60, MPI_COMM_WORLD, &sends[0]);
	MPI_Cancel(&sends[0]);
	MPI_Wait(&sends[0], &status);
	MPI_Test_cancelled(&status, &flag);
	CHECK(!flag);
	MPI_Wait(&request, &status);
	CHECK(holds(in, LONG, left));
}

static void statuses(void)
{
	MPI_Status status, several[2];
	MPI_Request requests[2];
	int value, flag, places[2], count, out = 5, in;
	memset(&status, 0, sizeof status);
	MPI_Status_set_source(&status, 3);
	MPI_Status_set_tag(&status, 4);
	MPI_Status_set_error(&status, MPI_ERR_TAG);
	MPI_Status_set_elements(&status, MPI_INT, 7);
	MPI_Status_set_cancelled(&status, 1);
	CHECK(MPI_Status_get_source(&status, &value) == MPI_SUCCESS && value == 3 && status.MPI_SOURCE == 3);
	CHECK(MPI_Status_get_tag(&status, &value) == MPI_SUCCESS && value == 4 && status.MPI_TAG == 4);
	CHECK(MPI_Status_get_error(&status, &value) == MPI_SUCCESS && value == MPI_ERR_TAG && status.MPI_ERROR == MPI_ERR_TAG);
	CHECK(MPI_Get_count(&status, MPI_INT, &value) == MPI_SUCCESS && value == 7);
	CHECK(MPI_Test_cancelled(&status, &flag) == MPI_SUCCESS && flag);
	/* Looking at requests does not end them. */
	MPI_Irecv(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
	requests[1] = MPI_REQUEST_NULL;
	MPI_Request_get_status_some(2, requests, &count, places, several);
	CHECK(count == 0 || count == 1);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Send(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
	for (flag = 0; !flag;)
		MPI_Request_get_status(requests[0], &flag, &status);
	CHECK(status.MPI_SOURCE == left && in == 5);
	MPI_Request_get_status_any(2, requests, &value, &flag, &status);
	CHECK(flag && value == 0 && status.MPI_TAG == 1);
	MPI_Request_get_status_all(2, requests, &flag, several);
	CHECK(flag && several[0].MPI_SOURCE == left && several[1].MPI_SOURCE == MPI_ANY_SOURCE);
	MPI_Request_get_status_some(2, requests, &count, places, several);
	CHECK(count == 1 && places[0] == 0 && several[0].MPI_TAG == 1);
	CHECK(requests[0] != MPI_REQUEST_NULL);
	MPI_Waitsome(2, requests, &count, places, several);
	CHECK(count == 1 && places[0] == 0 && requests[0] == MPI_REQUEST_NULL);
	MPI_Request_get_status_any(2, requests, &value, &flag, &status);
	CHECK(flag && value == MPI_UNDEFINED);
	MPI_Request_get_status_some(2, requests, &count, places, several);
	CHECK(count == MPI_UNDEFINED);
	/* An error of one of several is in its status. */
	MPI_Irecv(&in, 1, MPI_CHAR, left, 2, MPI_COMM_WORLD, &requests[0]);
	MPI_Irecv(&value, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &requests[1]);
	MPI_Send(&out, 1, MPI_INT, right, 2, MPI_COMM_WORLD);
	MPI_Send(&out, 1, MPI_INT, right, 3, MPI_COMM_WORLD);
	several[0].MPI_ERROR = several[1].MPI_ERROR = 77;
	CHECK(class_of(MPI_Waitall(2, requests, several)) == MPI_ERR_IN_STATUS);
	CHECK(class_of(several[0].MPI_ERROR) == MPI_ERR_TRUNCATE && several[1].MPI_ERROR == MPI_SUCCESS);
	/* Several may have failed, whichever: each says so, whatever call takes them out. */
	for (int failed = 1; failed < 1 << 4; failed++) {
		MPI_Request each[4];
		MPI_Status each_status[4];
		int values[4], which[4];
		for (int i = 0; i < 4; i++)
			MPI_Irecv(&values[i], 1, failed >> i & 1 ? MPI_CHAR : MPI_INT, left, 50 + i, MPI_COMM_WORLD, &each[i]);
		for (int i = 0; i < 4; i++) {
			MPI_Send(&out, 1, MPI_INT, right, 50 + i, MPI_COMM_WORLD);
			each_status[i].MPI_ERROR = 77;
		}
		if (failed % 3 == 0) {
			CHECK(class_of(MPI_Waitall(4, each, each_status)) == MPI_ERR_IN_STATUS);
		} else {
			for (flag = 0; !flag;)
				MPI_Request_get_status_all(4, each, &flag, MPI_STATUSES_IGNORE);
			if (failed % 3 == 1) {
				CHECK(class_of(MPI_Testall(4, each, &flag, each_status)) == MPI_ERR_IN_STATUS && flag);
			} else {
				CHECK(class_of(MPI_Waitsome(4, each, &count, which, each_status)) == MPI_ERR_IN_STATUS && count == 4);
			}
		}
		for (int i = 0; i < 4; i++)
			CHECK(class_of(each_status[i].MPI_ERROR) == (failed >> i & 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
	}
	/* So it is wherever the failed one stands, whatever kinds stand around it, and whether those before it are over when the call begins. */
	for (int failed = 0; failed < 5; failed++) {
		MPI_Request mixed[6];
		MPI_Status each[6];
		int values[6] = { 0 };
		for (int i = 0; i < 5; i++)
			MPI_Irecv(&values[i], 1, i == failed ? MPI_CHAR : MPI_INT, left, 40 + i, MPI_COMM_WORLD, &mixed[i]);
		MPI_Recv_init(&values[5], 1, MPI_INT, left, 45, MPI_COMM_WORLD, &mixed[5]);
		MPI_Start(&mixed[5]);
		for (int i = 0; i < 6; i++) {
			MPI_Send(&out, 1, MPI_INT, right, 40 + i, MPI_COMM_WORLD);
			each[i].MPI_ERROR = 77;
		}
		if (failed % 2)
			MPI_Wait(&mixed[0], MPI_STATUS_IGNORE);
		CHECK(class_of(MPI_Waitall(6, mixed, each)) == MPI_ERR_IN_STATUS);
		for (int i = 0; i < 6; i++) {
			CHECK(class_of(each[i].MPI_ERROR) == (i == failed ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
			CHECK((mixed[i] == MPI_REQUEST_NULL) == (i < 5) && (i == failed || values[i] == out));
			CHECK(i == 0 && failed % 2 ? each[i].MPI_SOURCE == MPI_ANY_SOURCE : each[i].MPI_TAG == 40 + i);
		}
		/* Nothing is left to wait for, and the persistent one begins again. */
		CHECK(MPI_Waitall(6, mixed, each) == MPI_SUCCESS && each[5].MPI_SOURCE == MPI_ANY_SOURCE);
		MPI_Start(&mixed[5]);
		MPI_Isend(&out, 1, MPI_INT, right, 45, MPI_COMM_WORLD, &mixed[1]);
		CHECK(MPI_Waitall(6, mixed, each) == MPI_SUCCESS && each[5].MPI_TAG == 45 && mixed[1] == MPI_REQUEST_NULL);
		MPI_Request_free(&mixed[5]);
	}
	/* Of all that have gone well MPI_ERROR says so, persistent ones or not, as programs expect that check it; a call that may return some leaves it alone. */
	for (int way = 0; way < 3; way++) {
		MPI_Request some[3];
		MPI_Status each[3];
		int values[3], places[3], flag = 0, count;
		for (int i = 0; i < 3; i++) {
			each[i].MPI_ERROR = 77;
			if (i == way)
				MPI_Recv_init(&values[i], 1, MPI_INT, left, 50 + i, MPI_COMM_WORLD, &some[i]);
			else
				MPI_Irecv(&values[i], 1, MPI_INT, left, 50 + i, MPI_COMM_WORLD, &some[i]);
		}
		MPI_Start(&some[way]);
		for (int i = 0; i < 3; i++)
			MPI_Send(&out, 1, MPI_INT, right, 50 + i, MPI_COMM_WORLD);
		if (way == 0)
			CHECK(MPI_Waitall(3, some, each) == MPI_SUCCESS);
		else if (way == 1)
			while (!flag)
				CHECK(MPI_Testall(3, some, &flag, each) == MPI_SUCCESS);
		else
			for (int got = 0; got < 3; got += count)
				CHECK(MPI_Waitsome(3, some, &count, places, each) == MPI_SUCCESS);
		for (int i = 0; i < 3; i++)
			CHECK(each[i].MPI_ERROR == (way < 2 ? MPI_SUCCESS : 77) && (way == 2 || each[i].MPI_TAG == 50 + i));
		MPI_Request_free(&some[way]);
	}
}

int main(int argc, char **argv)
{
	begin(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	right = (rank + 1) % size;
	left = (rank + size - 1) % size;
	exchanges();
	buffered();
	matched();
	matched_and_received();
	cancelled();
	statuses();
	return end("modes");
}
