/*
 * Calls that came after rdma-core 44, as a program built with rdma-core 65 makes them: found by name and node, since the headers of an
 * older system do not declare them.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <unistd.h>

/* struct ibv_mr_init_attr of rdma-core 65. */
struct attributes {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	void *buf;
};

enum { IOVA = 1, ADDR = 2, FD = 4, FD_OFFSET = 8, DMAH = 16, BUF = 32 };

static void *library;

static void *newer(const char *name, const char *node)
{
	void *symbol = dlvsym(library, name, node);

	if (!symbol)
		FAIL("%s@%s: %s", name, node, dlerror());
	return symbol;
}

/* Memory is registered as by ibv_reg_mr_iova2, and what this adapter lacks is refused with the errno of rdma-core. */
static void by_attributes(struct ibv_pd *pd)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, struct attributes *) = newer("ibv_reg_mr_ex", "IBVERBS_1.15");
	static char memory[8192];
	struct attributes a = { .length = sizeof(memory), .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = ADDR, .addr = memory };
	struct ibv_mr *mr = reg(pd, &a);

	CHECK(mr && mr->addr == memory && mr->length == sizeof(memory) && mr->pd == pd);
	EQ(ibv_dereg_mr(mr), 0);
	a.comp_mask = ADDR | IOVA;
	a.iova = 0x10000;
	mr = reg(pd, &a);
	CHECK(mr);
	EQ(ibv_dereg_mr(mr), 0);
	a.comp_mask = 0;
	REFUSED(reg(pd, &a), EINVAL);
	a.comp_mask = ADDR | FD_OFFSET;
	REFUSED(reg(pd, &a), EINVAL);
	a.comp_mask = FD | FD_OFFSET;
	REFUSED(reg(pd, &a), EINVAL);
	a.comp_mask = FD | FD_OFFSET | IOVA | ADDR;
	REFUSED(reg(pd, &a), EINVAL);
	a.comp_mask = FD | FD_OFFSET | IOVA;
	REFUSED(reg(pd, &a), EOPNOTSUPP);
	a.comp_mask = ADDR | DMAH;
	REFUSED(reg(pd, &a), EOPNOTSUPP);
	a.comp_mask = ADDR | 1ull << 40;
	REFUSED(reg(pd, &a), EOPNOTSUPP);
	REFUSED(reg(pd, NULL), EINVAL);
}

/* A buffer begins at a page, and only a part that lies within it is registered, in its own domain. */
static void buffers(struct ibv_context *context, struct ibv_pd *pd)
{
	void *(*alloc)(struct ibv_pd *, size_t, void **) = newer("ibv_alloc_buf", "IBVERBS_1.17");
	void (*release)(void *) = newer("ibv_free_buf", "IBVERBS_1.17");
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, void *, size_t, int) = newer("ibv_reg_buf_mr", "IBVERBS_1.17");
	struct ibv_mr *(*reg_ex)(struct ibv_pd *, struct attributes *) = newer("ibv_reg_mr_ex", "IBVERBS_1.15");
	int (*export)(void *) = newer("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	void *buf = NULL;
	char *memory = alloc(pd, 10000, &buf);
	struct ibv_pd *other = ibv_alloc_pd(context);

	CHECK(memory && buf && other);
	EQ((uintptr_t)memory % sysconf(_SC_PAGESIZE), 0);
	struct ibv_mr *mr = reg(pd, buf, memory + 100, 9900, IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr && mr->addr == memory + 100 && mr->length == 9900);
	EQ(ibv_dereg_mr(mr), 0);
	REFUSED(reg(pd, buf, memory + 100, 9901, 0), EINVAL);
	REFUSED(reg(pd, buf, memory - 1, 10, 0), EINVAL);
	REFUSED(reg(pd, buf, memory + 10001, 0, 0), EINVAL);
	REFUSED(reg(pd, buf, memory, SIZE_MAX, 0), EINVAL);
	REFUSED(reg(other, buf, memory, 100, 0), EINVAL);
	struct attributes a = { .length = 10, .comp_mask = BUF, .addr = memory, .buf = buf };

	REFUSED(reg_ex(pd, &a), EINVAL);
	a.comp_mask = BUF | ADDR | FD;
	REFUSED(reg_ex(pd, &a), EINVAL);
	a.comp_mask = BUF | ADDR | DMAH;
	REFUSED(reg_ex(pd, &a), EOPNOTSUPP);
	errno = 0;
	EQ(export(buf), -1);
	EQ(errno, ENODATA);
	REFUSED(alloc(pd, SIZE_MAX / 2, &buf), ENOMEM);
	REFUSED(alloc(pd, 10, NULL), EINVAL);
	release(buf);
	release(NULL);
	EQ(ibv_dealloc_pd(other), 0);
}

/* The speed is width times that of a lane, in 100 Mb/s. */
static void speed(struct ibv_context *context)
{
	int (*query)(struct ibv_context *, uint32_t, uint64_t *) = newer("ibv_query_port_speed", "IBVERBS_1.16");
	uint64_t found = 0;

	EQ(query(context, 1, &found), 0);
	EQ(found, 1000);
	EQ(query(context, 2, &found), EINVAL);
	EQ(query(context, 257, &found), EINVAL);
	EQ(query(context, 1, NULL), EINVAL);
}

/* A structure that has grown at its end since: what we do not know is zero. */
static void grown(struct ibv_context *context)
{
	struct {
		struct ibv_port_attr known;
		uint32_t active_speed_ex;
	} attr;
	struct verbs_context *verbs = verbs_get_ctx_op(context, query_port);

	CHECK(verbs);
	memset(&attr, 0xff, sizeof(attr));
	EQ(verbs->query_port(context, 1, &attr.known, sizeof(attr)), 0);
	EQ(attr.known.state, IBV_PORT_ACTIVE);
	EQ(attr.active_speed_ex, 0);
}

static void refusals(struct ibv_context *context)
{
	void *(*dmah)(void *, void *) = newer("ibv_alloc_dmah", "IBVERBS_1.15");
	int (*no_dmah)(void *) = newer("ibv_dealloc_dmah", "IBVERBS_1.15");
	int (*export)(void *) = newer("ibv_dm_export_dmabuf_fd", "IBVERBS_1.16");
	int (*caps)(void *, void *, size_t) = newer("_ibv_query_comp_cntr_caps", "IBVERBS_1.18");
	void *(*counter)(void *, void *) = newer("ibv_create_comp_cntr", "IBVERBS_1.18");
	static const char *const others[] = { "destroy", "set", "set_err", "inc", "inc_err", "read", "read_err" };
	char place[64], name[64];

	REFUSED(dmah(context, place), EOPNOTSUPP);
	EQ(no_dmah(place), EOPNOTSUPP);
	errno = 0;
	EQ(export(place), -1);
	EQ(errno, EOPNOTSUPP);
	EQ(caps(context, place, sizeof(place)), EOPNOTSUPP);
	REFUSED(counter(context, place), EOPNOTSUPP);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		snprintf(name, sizeof(name), "ibv_%s_comp_cntr", others[i]);
		int (*call)(void *, uint64_t) = newer(name, "IBVERBS_1.18");

		EQ(call(place, 1), EOPNOTSUPP);
	}
}

/* Providers of each release find the node of their release, and what is offered answers the same in all of them. */
static void private_nodes(struct ibv_context *context)
{
	static const int numbers[] = { 34, 57, 59, 64, 65 };
	char node[32], name[32];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		snprintf(node, sizeof(node), "IBVERBS_PRIVATE_%d", numbers[i]);
		snprintf(name, sizeof(name), "verbs_register_driver_%d", numbers[i]);
		void (*driver)(void *) = newer(name, node);
		int (*create)(void) = newer("ibv_cmd_create_qp", node);
		int (*type)(void *, uint8_t, unsigned, unsigned *) = newer("ibv_query_gid_type", node);
		const char *(*operation)(int) = newer("ibv_wr_opcode_str", node);
		const char *none = newer("verbs_allow_disassociate_destroy", node);
		unsigned found = 9;

		driver(NULL);
		EQ(create(), EOPNOTSUPP);
		EQ(type(context, 1, 0, &found), 0);
		EQ(found, 0);
		CHECK(!strcmp(operation(IBV_WR_SEND), "send") && !strcmp(operation(14), "flush"));
		CHECK(!strcmp(operation(12), "unknown") && !strcmp(operation(-1), "unknown") && !strcmp(operation(16), "unknown"));
		EQ(*none, 0);
	}
	CHECK(!dlvsym(library, "ibv_cmd_alloc_dmah", "IBVERBS_PRIVATE_57"));
}

int main(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);

	library = dlopen("libibverbs.so.1", RTLD_NOW);
	CHECK(pd && library);
	by_attributes(pd);
	buffers(context, pd);
	speed(context);
	grown(context);
	refusals(context);
	private_nodes(context);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
