//! The fabric's own subnet manager at work: its machine joined to the management interfaces of the port that it is at.
//!
//! Owns when it sweeps: at the beginning, when a trap or a switch that is asked every so often says that a link has changed, when somebody asks, and when another manager is gone
//! or hands over. While it stands by it touches nothing and answers for nobody.

use super::judge::{JUDGE_NS, Judge};
use crate::text::counted;
use ferriband_fabric::Time;
use ferriband_fabric::interface::{AgentId, Delivery, Far, Wanted};
use ferriband_fabric::live::Fabric;
use ferriband_fabric::manage::Place;
use ferriband_subnet::election::{Became, Election};
use ferriband_subnet::manager::{Config, Event, Instant, Manager, Subnet, TableRead};
use ferriband_subnet::sa::{Administration, Asker};
use ferriband_topology::NodeId;
use ferriband_wire::attributes::{Notice, PortCapabilities, trap};
use ferriband_wire::mad::{
    GSI_QKEY, GSI_QPN, MAD_LEN, MadHeader, MadStatus, ManagementClass, Method, SMI_QPN,
};
use ferriband_wire::smp::{Route, Smp, attribute};
use ferriband_wire::{Guid, Header, Lid, SmKey};
use std::collections::VecDeque;

/// The engine that routes what is left of a fabric, if the one that was asked for refuses that: it routes whatever is joined, without a circle.
pub const INSTEAD: &str = "updn";
/// How long nothing more may have changed before it sweeps: links that change together are seen together.
const SETTLE_NS: u64 = 20_000_000;
/// So often it asks the switches whether anything is other, in nanoseconds: a trap may be lost.
const LOOK_NS: u64 = 10_000_000_000;

/// How long the answer to a report is waited for, and how often it goes again.
const REPORT_PATIENCE: Time = Time::from_ns(200_000_000);
const REPORT_RETRIES: u32 = 3;

/// Questions that wait for tables to be read at the most: who asks more is not answered, and asks again.
const MOST_WAITING: usize = 64;

/// The manager.
#[derive(Debug)]
pub struct Own {
    machine: Manager,
    /// Its part among the subnet's managers.
    election: Election,
    at: Place,
    guid: Guid,
    by_lid: AgentId,
    directed: AgentId,
    /// Of those who ask its administration.
    asked: AgentId,
    /// It tells nodes about congestion, and their answers come here.
    congestion: Option<AgentId>,
    /// Requests about congestion that were sent, and that were not done.
    told: u32,
    refused: u32,
    /// Of the subnet as the last sweep left it.
    administration: Option<Administration>,
    /// Questions about tables that are read for them.
    waiting: VecDeque<(Far, [u8; MAD_LEN])>,
    /// When it looks at everything anew.
    sweep_at: Option<u64>,
    /// That sweep tells everything, whatever was told before.
    all: bool,
    /// When the last sweep began.
    begun: std::time::Instant,
    /// When it asks the switches.
    look_at: Option<u64>,
    activity: u32,
    /// Reports that were sent.
    reports: u32,
    /// Sweeps that came to an end.
    pub sweeps: u64,
    /// What came of the last one.
    pub says: String,
    /// It came to nothing.
    pub failed: bool,
    /// What is wrong with what came up; None: not looked at yet.
    pub warnings: Option<Vec<String>>,
    judge: Judge,
    /// When the judge is asked.
    judge_at: Option<u64>,
}

fn wanted(class: ManagementClass) -> Wanted {
    let methods = [Method::GET, Method::SET, Method::TRAP];
    Wanted {
        class,
        version: 1,
        oui: 0,
        methods: methods.iter().fold(0, |mask, method| mask | 1 << method.0),
        rmpp: false,
        plain: true,
    }
}

impl Own {
    /// At a port of the fabric. None if another manages there.
    pub fn new(
        fabric: &mut Fabric,
        at: Place,
        config: Config,
        priority: u8,
        sm_key: SmKey,
    ) -> Option<Own> {
        let by_lid = fabric
            .register(at, wanted(ManagementClass::SUBN_LID_ROUTED))
            .ok()?;
        let directed = fabric
            .register(at, wanted(ManagementClass::SUBN_DIRECTED_ROUTE))
            .ok()?;
        let questions = [
            Method::GET,
            Method::SET,
            Method::GET_TABLE,
            Method::GET_TRACE_TABLE,
            Method::GET_MULTI,
            Method::DELETE,
        ];
        let asked = Wanted {
            version: 2,
            methods: questions
                .iter()
                .fold(0, |mask, method| mask | 1 << method.0),
            rmpp: true,
            ..wanted(ManagementClass::SUBN_ADM)
        };
        let asked = fabric.register(at, asked).ok()?;
        let guid = fabric.plane().node(at.node).guid_of_port(at.port);
        let election = Election::new(guid, priority, config.mkey, sm_key, by_lid.0);
        Some(Own {
            election,
            // answers find it by the upper half of their transaction
            machine: Manager::new(config, directed.0),
            at,
            guid,
            by_lid,
            directed,
            asked,
            congestion: None,
            told: 0,
            refused: 0,
            administration: None,
            waiting: VecDeque::new(),
            sweep_at: Some(0),
            all: false,
            begun: std::time::Instant::now(),
            look_at: None,
            activity: 0,
            reports: 0,
            sweeps: 0,
            says: "the manager has not swept yet".to_owned(),
            failed: false,
            warnings: None,
            judge: Judge::default(),
            judge_at: None,
        })
    }

    /// It tells switches and adapters about congestion too. Unchanged if another does at this port.
    pub fn with_congestion_control(mut self, fabric: &mut Fabric) -> Own {
        let wanted = Wanted {
            version: 2,
            // it only asks
            methods: 0,
            ..wanted(ManagementClass::CONG_CTRL)
        };
        self.congestion = fabric.register(self.at, wanted).ok();
        self
    }

    /// True for the node that it is at.
    pub fn is_at(&self, node: NodeId) -> bool {
        self.at.node == node
    }

    /// True for what is delivered to it.
    pub fn is_for(&self, at: Place, agent: AgentId) -> bool {
        let own = [self.by_lid, self.directed, self.asked];
        at == self.at && (own.contains(&agent) || self.congestion == Some(agent))
    }

    /// Tells all nodes what they are to do about congestion.
    fn tell_of_congestion(&mut self, fabric: &mut Fabric, now_ns: u64) {
        let (Some(agent), Some(administration)) = (self.congestion, &self.administration) else {
            return;
        };
        for (lid, mut mad) in super::congestion::requests(administration.subnet()) {
            self.told = self.told.wrapping_add(1);
            mad[8..12].copy_from_slice(&agent.0.to_be_bytes());
            mad[12..16].copy_from_slice(&self.told.to_be_bytes());
            let to = Far {
                lid,
                qpn: GSI_QPN,
                qkey: GSI_QKEY,
                ..Far::default()
            };
            let now = Time::from_ns(now_ns);
            let sent = fabric.send(
                now,
                self.at,
                agent,
                to,
                &mad,
                REPORT_PATIENCE,
                REPORT_RETRIES,
            );
            self.refused += u32::from(sent.is_err());
        }
    }

    /// Everything is looked at anew, soon.
    pub fn sweep_soon(&mut self, now_ns: u64) {
        self.sweep_by(now_ns + SETTLE_NS);
    }

    /// The same, by then.
    fn sweep_by(&mut self, then: u64) {
        if self.election.is_master() {
            self.sweep_at = Some(self.sweep_at.map_or(then, |at| at.min(then)));
        }
    }

    /// The same, and all is told again.
    pub fn sweep_all_soon(&mut self, now_ns: u64) {
        self.all = true;
        self.sweep_soon(now_ns);
    }

    /// When [`Self::go_on`] is due.
    pub fn due(&self) -> Option<u64> {
        let timeout = self.machine.poll_timeout().map(|due| due.0);
        let free = !self.machine.is_sweeping();
        let ours = free && self.election.is_master();
        let sweep = self.sweep_at.filter(|_| ours);
        let look = self.look_at.filter(|_| ours);
        let election = self.election.poll_timeout().map(|due| due.0);
        let read = (free && !self.waiting.is_empty()).then_some(0);
        let own = sweep.into_iter().chain(look).chain(read);
        let own = own.chain(self.judge_at);
        timeout.into_iter().chain(own).chain(election).min()
    }

    /// A packet has come.
    pub fn take(&mut self, fabric: &mut Fabric, now_ns: u64, delivery: &Delivery) {
        let Some(mad) = delivery.bytes.first_chunk::<MAD_LEN>() else {
            return;
        };
        if delivery.agent == self.asked {
            return self.answer_question(fabric, now_ns, delivery, mad);
        }
        if self.congestion == Some(delivery.agent) {
            // an answer, or the request itself that nobody has answered
            let done = MadHeader::parse(mad).is_ok_and(|(said, _)| {
                said.method == Method::GET_RESP && said.status == MadStatus::OK
            });
            self.refused += u32::from(!done);
            return;
        }
        let Ok(smp) = Smp::parse_mad(mad) else { return };
        match smp.method {
            _ if smp.attribute == attribute::SM_INFO => {
                let now = Instant(now_ns);
                let from = delivery.far.lid;
                let became = self.election.handle(now, from, &smp, self.activity);
                self.now_is(now_ns, became);
                if let Some(administration) = &mut self.administration {
                    administration.others_are(self.election.others());
                }
                self.talk(fabric, now_ns);
            }
            Method::GET_RESP => {
                self.machine.handle_smp(&smp);
            }
            Method::TRAP if self.election.is_master() => {
                self.trapped(now_ns, &smp);
                let answer = Smp {
                    method: Method::TRAP_REPRESS,
                    ..smp
                };
                self.send(fabric, now_ns, self.by_lid, delivery.far.lid, &answer);
            }
            _ => {}
        }
    }

    /// A port says that something has happened: who has subscribed hears of it, and what changes the subnet is looked at.
    fn trapped(&mut self, now_ns: u64, smp: &Smp) {
        let mut bytes = [0; Notice::LEN];
        bytes[..smp.data.len()].copy_from_slice(&smp.data);
        let Ok((notice, _)) = Notice::parse(&bytes) else {
            return;
        };
        let changes = [trap::LINK_STATE, trap::CAPABILITIES, trap::SYSTEM_IMAGE];
        if notice.generic && changes.contains(&notice.trap) {
            self.sweep_soon(now_ns);
        }
        if notice.generic && notice.trap == trap::BAD_MKEY {
            // the key's lease runs since then: a sweep shows the right key in time, and not as often as a stranger tries
            self.sweep_by(now_ns + LOOK_NS);
        }
        if let Some(administration) = &mut self.administration {
            administration.tell(&notice);
        }
    }

    /// Sends what those who have subscribed are to hear.
    fn report(&mut self, fabric: &mut Fabric, now_ns: u64) {
        let Some(administration) = &mut self.administration else {
            return;
        };
        while let Some((to, mut mad)) = administration.poll_report() {
            self.reports = self.reports.wrapping_add(1);
            // answers find this agent by the upper half of their transaction
            mad[8..12].copy_from_slice(&self.asked.0.to_be_bytes());
            mad[12..16].copy_from_slice(&self.reports.to_be_bytes());
            let to = Far {
                lid: to.lid,
                qpn: to.qpn,
                qkey: GSI_QKEY,
                ..Far::default()
            };
            let now = Time::from_ns(now_ns);
            // what cannot be sent is as good as lost
            let _ = fabric.send(
                now,
                self.at,
                self.asked,
                to,
                &mad,
                REPORT_PATIENCE,
                REPORT_RETRIES,
            );
        }
    }

    /// A question about the subnet. Until there is one nobody answers, and who asks does so again.
    fn answer_question(
        &mut self,
        fabric: &mut Fabric,
        now_ns: u64,
        delivery: &Delivery,
        mad: &[u8; MAD_LEN],
    ) {
        let master = self.election.is_master();
        let administration = self.administration.as_ref().filter(|_| master);
        let needs = administration.and_then(|own| own.needs(mad));
        if needs.is_some() {
            // who asks again is still waiting
            let asked = (delivery.far, *mad);
            if !self.waiting.contains(&asked) && self.waiting.len() < MOST_WAITING {
                self.waiting.push_back(asked);
            }
            return;
        }
        if master {
            self.answer(fabric, now_ns, delivery.far, mad);
        }
    }

    fn answer(&mut self, fabric: &mut Fabric, now_ns: u64, to: Far, mad: &[u8; MAD_LEN]) {
        let from = Asker {
            lid: to.lid,
            qpn: to.qpn,
        };
        let now = Instant(now_ns);
        let administration = self.administration.as_mut();
        if let Some(answer) = administration.and_then(|own| own.answer(now, from, mad)) {
            let now = Time::from_ns(now_ns);
            // what cannot be sent is as good as lost
            let _ = fabric.send(now, self.at, self.asked, to, &answer, Time(0), 0);
        }
    }

    /// Begins to read what the first question needs that waits for tables.
    fn read_on(&mut self, fabric: &mut Fabric, now_ns: u64) {
        while !self.machine.is_sweeping()
            && let Some(administration) = &self.administration
            && let Some((to, mad)) = self.waiting.front().copied()
        {
            match administration.needs(&mad) {
                Some(what) => return self.machine.read(administration.subnet(), what),
                // groups that were asked for are gone
                None => {
                    self.waiting.pop_front();
                    self.answer(fabric, now_ns, to, &mad);
                }
            }
        }
    }

    /// A table was read: those who asked for it are answered.
    fn has_read(&mut self, fabric: &mut Fabric, now_ns: u64, tables: TableRead) {
        let what = tables.what;
        let Some(administration) = &mut self.administration else {
            return;
        };
        administration.learned(Some(tables));
        let waiting = std::mem::take(&mut self.waiting);
        for (to, mad) in waiting {
            let needs = self.administration.as_ref().and_then(|own| own.needs(&mad));
            match needs {
                Some(other) if other != what => self.waiting.push_back((to, mad)),
                _ => self.answer(fabric, now_ns, to, &mad),
            }
        }
        if let Some(administration) = &mut self.administration {
            administration.learned(None);
        }
    }

    /// What the exchange with other managers has made of this one.
    fn now_is(&mut self, now_ns: u64, became: Became) {
        match became {
            Became::Same => {}
            Became::Master => {
                self.sweep_at = Some(now_ns);
                self.says = "another manager is gone, or has handed over: it sweeps".to_owned();
            }
            Became::Standby => {
                self.machine.give_up();
                // the master's fabric is for the master to judge
                self.judge.forget();
                (self.failed, self.judge_at) = (false, None);
                self.warnings = Some(Vec::new());
                (self.sweep_at, self.look_at) = (None, None);
                self.waiting.clear();
                self.says = format!(
                    "it stands by: the manager at LID {} is the master",
                    self.election.master().0
                );
            }
        }
    }

    /// LIDs of ports at which other managers are.
    fn others(&self, subnet: &Subnet) -> Vec<Lid> {
        let ports = subnet.nodes.iter().flat_map(|node| {
            node.ports.iter().map(move |(number, info)| {
                let guid = node.guids.get(number).copied();
                (guid.unwrap_or(node.info.port_guid), info)
            })
        });
        let others = ports.filter(|(guid, info)| {
            *guid != self.guid
                && info.lid != Lid(0)
                && info.capabilities.contains(PortCapabilities::IS_SM)
        });
        others.map(|(_, info)| info.lid).collect()
    }

    fn send(&self, fabric: &mut Fabric, now_ns: u64, agent: AgentId, lid: Lid, smp: &Smp) {
        let mut mad = [0; MAD_LEN];
        if smp.emit(&mut mad).is_err() {
            return;
        }
        let to = Far {
            lid,
            qpn: SMI_QPN,
            ..Far::default()
        };
        let now = Time::from_ns(now_ns);
        // what cannot be sent is as good as lost: the machine asks again
        let _ = fabric.send(now, self.at, agent, to, &mad, Time(0), 0);
    }

    /// Sends what it has to say to other managers.
    fn talk(&mut self, fabric: &mut Fabric, now_ns: u64) {
        while let Some((to, smp)) = self.election.poll_transmit() {
            let agent = match smp.route {
                Route::Lid => self.by_lid,
                Route::Directed(_) => self.directed,
            };
            self.send(fabric, now_ns, agent, to, &smp);
        }
    }

    /// Sends what there is to send, and does what is due.
    pub fn go_on(&mut self, fabric: &mut Fabric, now_ns: u64) {
        let now = Instant(now_ns);
        if self.election.poll_timeout().is_some_and(|due| due <= now) {
            let became = self.election.handle_timeout(now);
            self.now_is(now_ns, became);
        }
        self.talk(fabric, now_ns);
        if self.judge_at.is_some_and(|at| at <= now_ns) {
            self.warnings = self.judge.poll().or(self.warnings.take());
            self.judge_at = self.judge.is_looking().then_some(now_ns + JUDGE_NS);
        }
        if !self.election.is_master() {
            return;
        }
        self.sweep_and_tell(fabric, now_ns);
        self.report(fabric, now_ns);
        // who has joined a group, or left one; while it sweeps the tables are about to be others
        if !self.machine.is_sweeping()
            && let Some(administration) = &mut self.administration
        {
            let trees = administration.take_trees();
            if !trees.is_empty() {
                self.machine.tell_trees(administration.subnet(), &trees);
                self.sweep_and_tell(fabric, now_ns);
            }
        }
        self.read_on(fabric, now_ns);
        self.sweep_and_tell(fabric, now_ns);
    }

    fn sweep_and_tell(&mut self, fabric: &mut Fabric, now_ns: u64) {
        let now = Instant(now_ns);
        if !self.machine.is_sweeping() && self.sweep_at.is_some_and(|at| at <= now_ns) {
            (self.sweep_at, self.look_at) = (None, None);
            self.activity = self.activity.wrapping_add(1);
            self.begun = std::time::Instant::now();
            match std::mem::take(&mut self.all) {
                true => self.machine.sweep_all(),
                false => self.machine.sweep(),
            }
        }
        if !self.machine.is_sweeping() && self.look_at.is_some_and(|at| at <= now_ns) {
            self.look_at = None;
            self.activity = self.activity.wrapping_add(1);
            self.machine.look();
        }
        if self.machine.poll_timeout().is_some_and(|due| due <= now) {
            self.machine.handle_timeout(now);
        }
        while let Some(smp) = self.machine.poll_transmit(now) {
            self.send(fabric, now_ns, self.directed, Lid::PERMISSIVE, &smp);
        }
        while let Some(event) = self.machine.poll_event() {
            if let Event::Read(tables) = event {
                self.has_read(fabric, now_ns, *tables);
                self.look_at.get_or_insert(now_ns + LOOK_NS);
                continue;
            }
            self.look_at = Some(now_ns + LOOK_NS);
            self.sweeps += u64::from(event != Event::Same);
            match event {
                Event::Same | Event::Read(_) => {}
                Event::Up(subnet) => {
                    self.says = if subnet.trouble.is_empty() {
                        format!(
                            "the subnet is up: {}, {}, {} requests in {:.3} s",
                            counted(subnet.graph.switches().len(), "switch", "switches"),
                            counted(subnet.graph.ends().len(), "end port", "end ports"),
                            subnet.requests,
                            self.begun.elapsed().as_secs_f64(),
                        )
                    } else {
                        // what changed meanwhile is seen by another sweep
                        self.sweep_soon(now_ns + 1_000_000_000);
                        format!(
                            "the subnet is up, but {} nodes did not do what they were told",
                            subnet.trouble.len()
                        )
                    };
                    if let Some(refused) = &subnet.refused {
                        self.says += &format!("; routed by {INSTEAD}: {refused}");
                    }
                    if subnet.stopped > 0 {
                        let lids = counted(subnet.stopped, "LID", "LIDs");
                        self.says += &format!(
                            "; packets to {lids} were held back while tables changed, or they could have waited for each other in a circle"
                        );
                    }
                    (self.failed, self.warnings) = (false, None);
                    self.judge.begin(&subnet, fabric.plane());
                    self.judge_at = Some(now_ns + JUDGE_NS);
                    let node = fabric.plane().node(self.at.node);
                    let lid = node.ports[usize::from(self.at.port)].info.lid;
                    let info = self.election.info(self.activity);
                    let others = self.others(&subnet);
                    self.election.swept(now, &others);
                    match &mut self.administration {
                        Some(known) => known.renew(*subnet, lid, info),
                        none => *none = Some(Administration::new(*subnet, lid, info)),
                    }
                    self.tell_of_congestion(fabric, now_ns);
                }
                Event::Failed(error) => {
                    // what was wrong with the routes that stay still is
                    self.failed = true;
                    self.warnings.get_or_insert_default();
                    self.says = format!("the subnet does not come up: {error}");
                }
            }
        }
        self.talk(fabric, now_ns);
    }
}
