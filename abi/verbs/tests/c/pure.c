/* Functions that need no device. */
#include "check.h"
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

/* Exported, but declared in headers that Debian does not ship. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
const char *ibv_get_sysfs_path(void);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int main(void)
{
	CHECK(!strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success"));
	CHECK(!strcmp(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE + 1), "unknown"));
	CHECK(!strcmp(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter"));
	CHECK(!strcmp(ibv_port_state_str(IBV_PORT_ARMED), "armed"));
	CHECK(!strcmp(ibv_event_type_str(IBV_EVENT_GID_CHANGE), "GID table change"));

	EQ(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
	EQ(mult_to_ibv_rate(16), IBV_RATE_40_GBPS);
	EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	EQ(mbps_to_ibv_rate(103125), IBV_RATE_100_GBPS);
	EQ(mult_to_ibv_rate(17), IBV_RATE_MAX);

	EQ(ibv_fork_init(), 0);
	EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	int word = 0;

	EQ(ibv_dontfork_range(&word, sizeof(word)), 0);
	EQ(ibv_dofork_range(&word, sizeof(word)), 0);

	struct ib_uverbs_qp_attr kernel = { .qp_state = 5, .dest_qp_num = 77, .timeout = 14 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };

	kernel.ah_attr.dlid = 9;
	ibv_copy_qp_attr_from_kern(&attr, &kernel);
	EQ(attr.qp_state, IBV_QPS_INIT);
	EQ(attr.dest_qp_num, 77);
	EQ(attr.timeout, 14);
	EQ(attr.ah_attr.dlid, 9);
	struct ibv_ah_attr path = { 0 };

	ibv_copy_ah_attr_from_kern(&path, &kernel.ah_attr);
	EQ(path.dlid, 9);
	struct ib_user_path_rec record = { .dlid = 3, .mtu = 4, .preference = 5 }, back = { 0 };
	struct ibv_sa_path_rec user = { 0 };

	ibv_copy_path_rec_from_kern(&user, &record);
	EQ(user.dlid, 3);
	EQ(user.mtu, 4);
	ibv_copy_path_rec_to_kern(&back, &user);
	EQ(back.preference, 5);

	CHECK(!strcmp(ibv_get_sysfs_path(), "/sys"));
	char text[64];

	CHECK(ibv_read_sysfs_file("/proc/self", "comm", text, sizeof(text)) > 0);
	CHECK(!strchr(text, '\n'));
	EQ(ibv_read_sysfs_file("/proc/self", "no-such-file", text, sizeof(text)), -1);
	EQ(errno, ENOENT);
	return 0;
}
