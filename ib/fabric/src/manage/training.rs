//! What width and speed a link has: the best that the ports at both its ends are enabled for (IBA 14.2.5.6).
//!
//! Owns the codes of PortInfo for them. A vendor's FDR10 shows as QDR, and in an attribute of that vendor ([`Port::vendor_info`]).

use ferriband_topology::{Speed, Width};
use ferriband_wire::attributes::MlnxExtendedPortInfo;

use super::Port;

/// Value of LinkSpeedExtEnabled: no extended speed.
pub const NO_EXTENDED: u8 = 30;
/// Value of LinkSpeedExtEnabled: all that are supported.
pub const ALL_EXTENDED: u8 = 31;

/// This width and the narrower ones that every port has.
pub fn width_bits(best: Width) -> u8 {
    let below = Width::ALL.into_iter().filter(|width| *width <= best);
    below.fold(0, |mask, width| mask | width.bit())
}

/// Codes of LinkSpeedActive and LinkSpeedExtActive.
pub fn speed_bits(speed: Speed) -> (u8, u8) {
    match speed {
        Speed::Sdr => (1, 0),
        Speed::Ddr => (2, 0),
        Speed::Qdr | Speed::Fdr10 => (4, 0),
        Speed::Fdr => (4, 1),
        Speed::Edr => (4, 2),
        Speed::Hdr => (4, 4),
        Speed::Ndr => (4, 8),
    }
}

/// A vendor's code of a speed that PortInfo has none for.
pub fn vendor_bit(speed: Speed) -> u8 {
    match speed {
        Speed::Fdr10 => MlnxExtendedPortInfo::FDR10,
        _ => 0,
    }
}

/// A port may use this speed.
fn is_enabled(port: &Port, speed: Speed) -> bool {
    let info = &port.info;
    let extended = match info.link_speed_ext_enabled {
        NO_EXTENDED => 0,
        mask => mask,
    };
    match (speed_bits(speed), vendor_bit(speed)) {
        ((_, 0), 0) => info.link_speed_enabled & speed_bits(speed).0 != 0,
        ((_, 0), vendor) => port.vendor_info.link_speed_enabled & vendor != 0,
        ((_, code), _) => extended & code != 0,
    }
}

/// What a link between two ports is trained to; None if they have no width or no speed in common, so that it does not come up.
pub fn best(ends: [&Port; 2]) -> Option<(Width, Speed)> {
    let both = |able: &dyn Fn(&Port) -> bool| ends.iter().all(|port| able(port));
    let width = Width::ALL
        .into_iter()
        .rfind(|width| both(&|port| port.info.link_width_enabled & width.bit() != 0));
    let speed = Speed::ALL
        .into_iter()
        .rfind(|speed| both(&|port| is_enabled(port, *speed)));
    width.zip(speed)
}

impl Port {
    /// Its link has been trained to this.
    pub(super) fn set_active(&mut self, (width, speed): (Width, Speed)) {
        let info = &mut self.info;
        info.link_width_active = width.bit();
        (info.link_speed_active, info.link_speed_ext_active) = speed_bits(speed);
        self.vendor_info.link_speed_active = vendor_bit(speed);
    }

    /// What its link was trained to last.
    pub(super) fn active(&self) -> Option<(Width, Speed)> {
        let info = &self.info;
        let codes = (info.link_speed_active, info.link_speed_ext_active);
        let width = |width: &Width| width.bit() == info.link_width_active;
        let speed = |speed: &Speed| {
            speed_bits(*speed) == codes && vendor_bit(*speed) == self.vendor_info.link_speed_active
        };
        let (widths, speeds) = (Width::ALL, Speed::ALL);
        widths
            .into_iter()
            .find(width)
            .zip(speeds.into_iter().find(speed))
    }
}
