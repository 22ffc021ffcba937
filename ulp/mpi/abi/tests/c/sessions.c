/* Sessions: MPI before, beside and after the world. */
#include "check.h"

static int handled;

static void handler(MPI_Session *session, int *code, ...)
{
	CHECK(*session != MPI_SESSION_NULL && class_of(*code) == MPI_ERR_ARG);
	handled++;
}

/* Buffered messages of a communicator take its own buffer, else its session's. */
static void buffers(MPI_Session session, MPI_Comm comm)
{
	static char room[1000 + MPI_BSEND_OVERHEAD], small[100 + MPI_BSEND_OVERHEAD];
	char out[1000], in[1000];
	void *found;
	int mine, all, length;
	MPI_Comm child;
	MPI_Request request;

	CHECK(MPI_Comm_rank(comm, &mine) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(comm, &all) == MPI_SUCCESS);
	CHECK(MPI_Session_attach_buffer(session, room, sizeof room) == MPI_SUCCESS);
	CHECK(class_of(MPI_Session_attach_buffer(session, room, sizeof room)) == MPI_ERR_BUFFER);
	CHECK(MPI_Comm_dup(comm, &child) == MPI_SUCCESS);
	memset(out, mine + 1, sizeof out);
	CHECK(MPI_Bsend(out, sizeof out, MPI_CHAR, (mine + 1) % all, 3, child) == MPI_SUCCESS);
	memset(out, 0, sizeof out);
	CHECK(MPI_Recv(in, sizeof in, MPI_CHAR, (mine + all - 1) % all, 3, child, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(in[0] == (mine + all - 1) % all + 1 && in[999] == in[0]);
	CHECK(MPI_Session_flush_buffer(session) == MPI_SUCCESS);
	CHECK(MPI_Session_iflush_buffer(session, &request) == MPI_SUCCESS);
	CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	/* A buffer of its own goes before that. */
	CHECK(MPI_Comm_attach_buffer(child, small, sizeof small) == MPI_SUCCESS);
	CHECK(MPI_Comm_set_errhandler(child, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	CHECK(class_of(MPI_Bsend(out, sizeof out, MPI_CHAR, mine, 3, child)) == MPI_ERR_BUFFER);
	CHECK(MPI_Comm_free(&child) == MPI_SUCCESS);
	CHECK(MPI_Comm_dup(comm, &child) == MPI_SUCCESS);
	CHECK(MPI_Bsend(out, sizeof out, MPI_CHAR, mine, 4, child) == MPI_SUCCESS);
	CHECK(MPI_Recv(in, sizeof in, MPI_CHAR, mine, 4, child, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_Comm_free(&child) == MPI_SUCCESS);
	CHECK(MPI_Session_detach_buffer(session, &found, &length) == MPI_SUCCESS);
	CHECK(found == room && length == (int)sizeof room);
	CHECK(class_of(MPI_Session_detach_buffer(session, &found, &length)) == MPI_ERR_BUFFER);
	CHECK(MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0) == MPI_SUCCESS);
	CHECK(MPI_Bsend(out, sizeof out, MPI_CHAR, mine, 5, comm) == MPI_SUCCESS);
	CHECK(MPI_Recv(in, sizeof in, MPI_CHAR, mine, 5, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
	CHECK(MPI_Session_detach_buffer(session, &found, &length) == MPI_SUCCESS && found == MPI_BUFFER_AUTOMATIC);
}

/* Everything that a session is good for. */
static void use(const char *tag)
{
	MPI_Session session;
	MPI_Errhandler own, found;
	MPI_Group group;
	MPI_Comm comm;
	MPI_Info info;
	char name[64], value[64];
	int n, length, flag, has_world = 0, mine, sum, all;

	CHECK(MPI_Session_create_errhandler(handler, &own) == MPI_SUCCESS);
	CHECK(MPI_Session_init(MPI_INFO_NULL, own, &session) == MPI_SUCCESS);
	CHECK(MPI_Session_get_errhandler(session, &found) == MPI_SUCCESS && found == own);
	CHECK(MPI_Errhandler_free(&found) == MPI_SUCCESS);
	CHECK(MPI_Errhandler_free(&own) == MPI_SUCCESS);
	CHECK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n) == MPI_SUCCESS && n >= 2);
	for (int i = 0; i < n; i++) {
		length = 0;
		CHECK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL) == MPI_SUCCESS && length < 64);
		CHECK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name) == MPI_SUCCESS);
		has_world |= strcmp(name, "mpi://WORLD") == 0;
	}
	CHECK(has_world);
	CHECK(MPI_Session_get_pset_info(session, "mpi://WORLD", &info) == MPI_SUCCESS);
	length = sizeof value;
	CHECK(MPI_Info_get_string(info, "mpi_size", &length, value, &flag) == MPI_SUCCESS && flag);
	CHECK(MPI_Info_free(&info) == MPI_SUCCESS);

	int before = handled;
	CHECK(class_of(MPI_Group_from_session_pset(session, "org.example.nobody", &group)) == MPI_ERR_ARG);
	CHECK(handled == before + 1);
	CHECK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN) == MPI_SUCCESS);
	CHECK(class_of(MPI_Group_from_session_pset(session, "org.example.nobody", &group)) == MPI_ERR_ARG);
	CHECK(handled == before + 1);

	CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
	CHECK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm) == MPI_SUCCESS);
	CHECK(MPI_Comm_rank(comm, &mine) == MPI_SUCCESS);
	CHECK(MPI_Comm_size(comm, &all) == MPI_SUCCESS && all == atoi(value));
	CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == all * (all - 1) / 2);
	buffers(session, comm);
	/* Of the attributes of the environment there is but one. */
	int keys[] = { MPI_TAG_UB, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE };
	for (int i = 0; i < 6; i++) {
		int *found_value;
		CHECK(MPI_Comm_get_attr(comm, keys[i], &found_value, &flag) == MPI_SUCCESS && flag == (keys[i] == MPI_TAG_UB));
	}
	CHECK(MPI_Comm_disconnect(&comm) == MPI_SUCCESS);
	CHECK(MPI_Group_free(&group) == MPI_SUCCESS);
	CHECK(MPI_Group_from_session_pset(session, "mpi://SELF", &group) == MPI_SUCCESS);
	CHECK(MPI_Group_size(group, &n) == MPI_SUCCESS && n == 1);
	CHECK(MPI_Group_free(&group) == MPI_SUCCESS);
	CHECK(MPI_Session_get_info(session, &info) == MPI_SUCCESS);
	CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
	CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS && session == MPI_SESSION_NULL);
}

int main(int argc, char **argv)
{
	MPI_Session longest;
	int flag;

	use("before");
	use("again");
	CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && !flag);
	CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &longest) == MPI_SUCCESS);
	begin(&argc, &argv);
	use("beside");
	int own_rank = rank, own_size = size;
	CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
	CHECK(MPI_Finalize() == MPI_SUCCESS);
	CHECK(MPI_Finalized(&flag) == MPI_SUCCESS && flag);
	use("after");
	CHECK(MPI_Session_finalize(&longest) == MPI_SUCCESS);
	use("long after");
	if (own_rank == 0)
		printf("sessions: %d ranks: ok\n", own_size);
	return 0;
}
