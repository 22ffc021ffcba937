/* Handles have numbers, by the ABI's names and by those of before the ABI; all of these are functions. */
#include "check.h"

/* A handle becomes a number and the same handle again, whichever names are used. */
#define ROUND(kind, handle) \
	do { \
		int number_ = MPI_##kind##_toint(handle); \
		CHECK(MPI_##kind##_fromint(number_) == (handle) && PMPI_##kind##_fromint(number_) == (handle)); \
		CHECK(PMPI_##kind##_toint(handle) == number_ && MPI_##kind##_c2f(handle) == number_ && PMPI_##kind##_c2f(handle) == number_); \
		CHECK(MPI_##kind##_f2c(number_) == (handle) && PMPI_##kind##_f2c(number_) == (handle)); \
	} while (0)

/* Those of the standard have the number that the ABI gives them. */
#define FIXED(kind, handle) \
	do { \
		ROUND(kind, handle); \
		CHECK((intptr_t)(handle) == MPI_##kind##_toint(handle)); \
	} while (0)

static void sum(void *in, void *out, int *count, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *count; i++)
		((int *)out)[i] += ((int *)in)[i];
}

static void handler(MPI_Comm *comm, int *code, ...)
{
	(void)comm, (void)code;
}

static void made(void)
{
	int value = 0;
	MPI_Comm comm;
	MPI_Datatype type;
	MPI_Errhandler errhandler;
	MPI_Group group;
	MPI_Info info;
	MPI_Message message;
	MPI_Op op;
	MPI_Request request, sending;
	MPI_Session session;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Type_contiguous(3, MPI_INT, &type);
	MPI_Comm_create_errhandler(handler, &errhandler);
	MPI_Comm_group(comm, &group);
	MPI_Info_create(&info);
	MPI_Op_create(sum, 1, &op);
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
	MPI_Recv_init(&value, 1, MPI_INT, rank, 7, comm, &request);
	MPI_Isend(&value, 1, MPI_INT, rank, 9, comm, &sending);
	MPI_Mprobe(rank, 9, comm, &message, MPI_STATUS_IGNORE);
	ROUND(Comm, comm);
	ROUND(Type, type);
	ROUND(Errhandler, errhandler);
	ROUND(Group, group);
	ROUND(Info, info);
	ROUND(Message, message);
	ROUND(Op, op);
	ROUND(Request, request);
	ROUND(Session, session);
	CHECK(MPI_Comm_toint(comm) != MPI_Comm_toint(MPI_COMM_WORLD));
	/* What a number names is the object. */
	CHECK(MPI_Comm_size(MPI_Comm_fromint(MPI_Comm_toint(comm)), &value) == MPI_SUCCESS && value == size);
	MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
	MPI_Wait(&sending, MPI_STATUS_IGNORE);
	MPI_Request_free(&request);
	MPI_Session_finalize(&session);
	MPI_Op_free(&op);
	MPI_Info_free(&info);
	MPI_Group_free(&group);
	MPI_Errhandler_free(&errhandler);
	MPI_Type_free(&type);
	MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
	MPI_Comm (*from)(MPI_Fint) = MPI_Comm_f2c;
	/* At any time. */
	FIXED(Comm, MPI_COMM_WORLD);
	begin(&argc, &argv);
	FIXED(Comm, MPI_COMM_NULL);
	FIXED(Comm, MPI_COMM_SELF);
	FIXED(Type, MPI_DATATYPE_NULL);
	FIXED(Type, MPI_DOUBLE);
	FIXED(Type, MPI_PACKED);
	FIXED(Errhandler, MPI_ERRHANDLER_NULL);
	FIXED(Errhandler, MPI_ERRORS_ABORT);
	FIXED(File, MPI_FILE_NULL);
	FIXED(Group, MPI_GROUP_EMPTY);
	FIXED(Info, MPI_INFO_ENV);
	FIXED(Message, MPI_MESSAGE_NO_PROC);
	FIXED(Op, MPI_NO_OP);
	FIXED(Request, MPI_REQUEST_NULL);
	FIXED(Session, MPI_SESSION_NULL);
	FIXED(Win, MPI_WIN_NULL);
	CHECK(from(MPI_Comm_c2f(MPI_COMM_SELF)) == MPI_COMM_SELF);
	made();
	return end("numbers");
}
