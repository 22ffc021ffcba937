//! Conversions between the kernel's structures and the library's: the connection manager library uses them on
//! what it reads from `/dev/infiniband/rdma_cm`. Fields keep their value; only places and widths differ.

use ferriband_verbs_sys as sys;

/// Callers of these functions promise two valid, distinct structures; a NULL is ignored.
macro_rules! convert {
    ($(#[$doc:meta])* $name:ident($src:ty => $dst:ty, $convert:path)) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `dst` and `src` are NULL or point to structures of their types, and `dst` may be written.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(dst: *mut $dst, src: *const $src) {
            // SAFETY: the caller passes NULL or a valid structure.
            let Some(src) = (unsafe { src.as_ref() }) else { return };
            // SAFETY: the caller passes NULL or a valid structure of its own.
            let Some(dst) = (unsafe { dst.as_mut() }) else { return };
            $convert(dst, src);
        }
    };
}

convert!(
    /// `ibv_copy_ah_attr_from_kern`.
    ibv_copy_ah_attr_from_kern(sys::ib_uverbs_ah_attr => sys::ibv_ah_attr, ah_attr)
);
convert!(
    /// `ibv_copy_qp_attr_from_kern`. The state that the call moves to is the caller's business: `qp_state` is kept.
    ibv_copy_qp_attr_from_kern(sys::ib_uverbs_qp_attr => sys::ibv_qp_attr, qp_attr)
);
convert!(
    /// `ibv_copy_path_rec_from_kern`.
    ibv_copy_path_rec_from_kern(sys::ib_user_path_rec => sys::ibv_sa_path_rec, path_from_kernel)
);
convert!(
    /// `ibv_copy_path_rec_to_kern`.
    ibv_copy_path_rec_to_kern(sys::ibv_sa_path_rec => sys::ib_user_path_rec, path_to_kernel)
);

fn ah_attr(dst: &mut sys::ibv_ah_attr, src: &sys::ib_uverbs_ah_attr) {
    dst.grh.dgid.raw = src.grh.dgid;
    dst.grh.flow_label = src.grh.flow_label;
    dst.grh.sgid_index = src.grh.sgid_index;
    dst.grh.hop_limit = src.grh.hop_limit;
    dst.grh.traffic_class = src.grh.traffic_class;
    dst.dlid = src.dlid;
    dst.sl = src.sl;
    dst.src_path_bits = src.src_path_bits;
    dst.static_rate = src.static_rate;
    dst.is_global = src.is_global;
    dst.port_num = src.port_num;
}

fn qp_attr(dst: &mut sys::ibv_qp_attr, src: &sys::ib_uverbs_qp_attr) {
    dst.cur_qp_state = src.cur_qp_state;
    dst.path_mtu = src.path_mtu;
    dst.path_mig_state = src.path_mig_state;
    dst.qkey = src.qkey;
    dst.rq_psn = src.rq_psn;
    dst.sq_psn = src.sq_psn;
    dst.dest_qp_num = src.dest_qp_num;
    dst.qp_access_flags = src.qp_access_flags;
    dst.cap = sys::ibv_qp_cap {
        max_send_wr: src.max_send_wr,
        max_recv_wr: src.max_recv_wr,
        max_send_sge: src.max_send_sge,
        max_recv_sge: src.max_recv_sge,
        max_inline_data: src.max_inline_data,
    };
    ah_attr(&mut dst.ah_attr, &src.ah_attr);
    ah_attr(&mut dst.alt_ah_attr, &src.alt_ah_attr);
    dst.pkey_index = src.pkey_index;
    dst.alt_pkey_index = src.alt_pkey_index;
    dst.en_sqd_async_notify = src.en_sqd_async_notify;
    dst.sq_draining = src.sq_draining;
    dst.max_rd_atomic = src.max_rd_atomic;
    dst.max_dest_rd_atomic = src.max_dest_rd_atomic;
    dst.min_rnr_timer = src.min_rnr_timer;
    dst.port_num = src.port_num;
    dst.timeout = src.timeout;
    dst.retry_cnt = src.retry_cnt;
    dst.rnr_retry = src.rnr_retry;
    dst.alt_port_num = src.alt_port_num;
    dst.alt_timeout = src.alt_timeout;
}

fn path_from_kernel(dst: &mut sys::ibv_sa_path_rec, src: &sys::ib_user_path_rec) {
    dst.dgid.raw = src.dgid;
    dst.sgid.raw = src.sgid;
    dst.dlid = src.dlid;
    dst.slid = src.slid;
    dst.raw_traffic = src.raw_traffic as i32;
    dst.flow_label = src.flow_label;
    dst.hop_limit = src.hop_limit;
    dst.traffic_class = src.traffic_class;
    dst.reversible = src.reversible as i32;
    dst.numb_path = src.numb_path;
    dst.pkey = src.pkey;
    dst.sl = src.sl;
    dst.mtu_selector = src.mtu_selector;
    dst.mtu = src.mtu as u8;
    dst.rate_selector = src.rate_selector;
    dst.rate = src.rate;
    dst.packet_life_time_selector = src.packet_life_time_selector;
    dst.packet_life_time = src.packet_life_time;
    dst.preference = src.preference;
}

fn path_to_kernel(dst: &mut sys::ib_user_path_rec, src: &sys::ibv_sa_path_rec) {
    // SAFETY: every byte pattern of the union is a valid array of bytes.
    dst.dgid = unsafe { src.dgid.raw };
    // SAFETY: as above.
    dst.sgid = unsafe { src.sgid.raw };
    dst.dlid = src.dlid;
    dst.slid = src.slid;
    dst.raw_traffic = src.raw_traffic as u32;
    dst.flow_label = src.flow_label;
    dst.hop_limit = src.hop_limit;
    dst.traffic_class = src.traffic_class;
    dst.reversible = src.reversible as u32;
    dst.numb_path = src.numb_path;
    dst.pkey = src.pkey;
    dst.sl = src.sl;
    dst.mtu_selector = src.mtu_selector;
    dst.mtu = src.mtu.into();
    dst.rate_selector = src.rate_selector;
    dst.rate = src.rate;
    dst.packet_life_time_selector = src.packet_life_time_selector;
    dst.packet_life_time = src.packet_life_time;
    dst.preference = src.preference;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel structure whose named fields are all different from zero and from each other.
    fn numbered_path() -> sys::ib_user_path_rec {
        let mut path = sys::ib_user_path_rec {
            dlid: 3,
            slid: 4,
            raw_traffic: 5,
            flow_label: 6,
            ..Default::default()
        };
        path.dgid[15] = 1;
        path.sgid[0] = 2;
        (path.reversible, path.pkey, path.mtu, path.hop_limit) = (7, 8, 9, 10);
        (
            path.traffic_class,
            path.numb_path,
            path.sl,
            path.mtu_selector,
        ) = (11, 12, 13, 14);
        (path.rate_selector, path.rate) = (15, 16);
        (
            path.packet_life_time_selector,
            path.packet_life_time,
            path.preference,
        ) = (17, 18, 19);
        path
    }

    #[test]
    fn a_path_record_survives_the_round_trip() {
        let kernel = numbered_path();
        let mut user = sys::ibv_sa_path_rec::default();
        let mut back = sys::ib_user_path_rec::default();
        // SAFETY: the pointers come from live locals.
        unsafe { ibv_copy_path_rec_from_kern(&mut user, &kernel) };
        // SAFETY: as above.
        unsafe { ibv_copy_path_rec_to_kern(&mut back, &user) };
        assert_eq!(format!("{back:?}"), format!("{kernel:?}"));
    }

    #[test]
    fn queue_pair_attributes_keep_the_requested_state() {
        let mut kernel = sys::ib_uverbs_qp_attr {
            qp_state: 3,
            cur_qp_state: 2,
            rq_psn: 77,
            ..Default::default()
        };
        kernel.ah_attr.grh.dgid[5] = 9;
        kernel.alt_ah_attr.dlid = 12;
        let mut user = sys::ibv_qp_attr {
            qp_state: 1,
            ..Default::default()
        };
        // SAFETY: the pointers come from live locals.
        unsafe { ibv_copy_qp_attr_from_kern(&mut user, &kernel) };
        assert_eq!((user.qp_state, user.cur_qp_state, user.rq_psn), (1, 2, 77));
        assert_eq!(user.alt_ah_attr.dlid, 12);
        // SAFETY: every byte pattern of the union is a valid array of bytes.
        assert_eq!(unsafe { user.ah_attr.grh.dgid.raw }[5], 9);
    }
}
