//! The constants of the papers' agents that can be set, with where each comes from:
//! `DoblixConstants`, `LerpConstants` (RusKey's agent), `CamalConstants`.
//!
//! `agent::make` takes the defaults of the first two. What is fixed stays beside its use: CAMAL's
//! training mixes in `camal::sampling`, the edges of Lerp's actions in `lerp`.
//!
//! What must hold: each names its source. "Printed" is what the paper says, "the authors' code"
//! what CAMAL's does, "ours" what we chose where the paper leaves it out. docs/PAPERS.md describes
//! the agents, under the paper's name.
//!
//! Callers: `agent::make` (DobLIX, Lerp) and the agents `doblix`, `lerp` and `camal`; pages and the
//! opponent `plain` of `solera-bench`.

use crate::learn::Boost;

/// DobLIX, §III-F and §IV-F.
#[derive(Clone, Debug, PartialEq)]
pub struct DoblixConstants {
    /// Error bounds of PLA. Printed: 32 to 256, doubling.
    pub epsilons: [u32; 4],
    /// Block sizes in bytes. Printed: 4 to 32 KB, doubling.
    pub block_bytes: [u32; 4],
    /// α of Q-learning. Ours: 0.2; the paper names none.
    pub rate: f64,
    /// γ of Q-learning. Ours: 0.8, the largest of the values that the paper tried.
    pub discount: f64,
    /// ε at first. Printed as "high"; ours.
    pub explore_first: f64,
    /// ε at first after pre-training: what a sample has shown is not found out again. Ours.
    pub explore_pretrained: f64,
    /// ε at last. Ours.
    pub explore_least: f64,
    /// What is left of ε after an episode. Ours: from first to least in the 50 episodes that the
    /// paper needs.
    pub explore_keep: f64,
    /// ν: how much latency counts beside index size. Printed: 1.
    pub latency_share: f64,
    /// Tables written in an episode. Printed: 20.
    pub episode_tables: f64,
    /// Episodes that the baseline of rewards remembers. Ours: the paper's sigmoid of a raw latency
    /// saturates.
    pub baseline_episodes: f64,
    /// Lookups in tables of the present layout without which an episode is not learned from. Ours.
    pub searches_min: u64,
    /// Growth of a read's time with a doubling of the block from which it is linear and no longer
    /// logarithmic. Ours: √2, midway between no growth and doubling.
    pub linear_growth: f64,
    /// Steps that pre-training makes. Ours.
    pub pretraining_steps: usize,
}

impl Default for DoblixConstants {
    fn default() -> Self {
        DoblixConstants {
            epsilons: [32, 64, 128, 256],
            block_bytes: [4 << 10, 8 << 10, 16 << 10, 32 << 10],
            rate: 0.2,
            discount: 0.8,
            explore_first: 0.99,
            explore_pretrained: 0.3,
            explore_least: 0.02,
            explore_keep: 0.925,
            latency_share: 1.0,
            episode_tables: 20.0,
            baseline_episodes: 20.0,
            searches_min: 200,
            linear_growth: std::f64::consts::SQRT_2,
            pretraining_steps: 2_000,
        }
    }
}

/// RusKey, §5 and §7.
#[derive(Clone, Debug, PartialEq)]
pub struct LerpConstants {
    /// Units of each hidden layer of actor and critic. Printed: three layers of 128.
    pub hidden: Vec<usize>,
    /// α: how much a level's own latency counts beside the whole. Printed: 1/2.
    pub level_share: f64,
    /// Adam's rate for the actor. Ours: with more it goes to one end before the critic knows which.
    pub actor_rate: f32,
    /// Adam's rate for the critic. Ours.
    pub critic_rate: f32,
    /// Discount. Ours: an effect comes some missions after its cause.
    pub discount: f32,
    /// τ. Ours: DDPG's own is 0.001 for millions of steps; here are hundreds.
    pub follow: f32,
    /// Transitions that an update learns from. Ours.
    pub batch: usize,
    /// Transitions without which there is no update, four of most missions. Ours: until then K
    /// wanders; with half of them some seeds end at one run where reads prevail.
    pub warm: usize,
    /// Transitions that are remembered. Ours.
    pub memory: usize,
    /// Updates of a model after each mission. Ours.
    pub updates: usize,
    /// Noise at first and at last. Ours: less than 1 at first does not bring an actor back that
    /// went to one end.
    pub noise: (f32, f32),
    /// What is left of it after a mission. Ours.
    pub noise_keep: f32,
    /// Missions of which the means are taken that a level's latency and the whole's are measured
    /// in. Ours: "equally contributed" is meant of what they say, and the whole is ten times a
    /// level.
    pub scaled_missions: usize,
    /// Farthest that the whole's latency counts from its mean, in deviations. Ours: now and then a
    /// deep level is emptied, which has little to do with what was done last.
    pub whole_max: f64,
    /// What the square of an action costs the actor. Ours: the paper wants no drastic changes;
    /// where K makes no difference, noise is not to drive it to one end.
    pub action_price: f32,
    /// Missions in which K stays within one for it to count as found. Ours.
    pub settled_missions: usize,
    /// Surprise of the critic, as a share of what a mission costs, up to which the model counts as
    /// converged. Ours.
    pub settled_surprise: f32,
    /// The same as a share of the deviation of what missions cost, where that is more: no agent
    /// foresees more than the noise lets it. Ours.
    pub settled_spread: f32,
    /// Noise above which nothing counts as found. Ours.
    pub settled_noise: f32,
    /// Total variation of two mixes from which the workload has shifted, beyond what chance makes
    /// of so few operations (`learn::MixShift`). Ours: CAMAL's.
    pub shift: f64,
}

impl Default for LerpConstants {
    fn default() -> Self {
        LerpConstants {
            hidden: vec![128, 128, 128],
            level_share: 0.5,
            actor_rate: 3e-5,
            critic_rate: 1e-3,
            discount: 0.9,
            follow: 0.02,
            batch: 32,
            warm: 230,
            memory: 10_000,
            updates: 6,
            noise: (1.0, 0.1),
            noise_keep: 0.988,
            scaled_missions: 30,
            whole_max: 1.0,
            action_price: 0.05,
            settled_missions: 30,
            settled_surprise: 0.05,
            settled_spread: 1.0,
            settled_noise: 0.2,
            shift: 0.1,
        }
    }
}

/// CAMAL, §4 to §8.
#[derive(Clone, Debug, PartialEq)]
pub struct CamalConstants {
    /// Samples of T for each training mix. The authors' code takes 5; the text speaks of 3.
    pub ratio_samples: usize,
    /// Samples of bits per key for each training mix. The authors' code.
    pub bits_samples: usize,
    /// Samples of the cache's share for each training mix. The authors' code.
    pub cache_samples: usize,
    /// Samples of pairs of T and K, where K is chosen too (§8.4). Ours: a square about the pair of
    /// the closed forms.
    pub pair_samples: usize,
    /// Bits per key while another knob is sampled. Printed: 10, those of well-tuned RocksDB.
    pub bits_default: f64,
    /// Shares of the memory that are tried for the cache. The authors' code.
    pub cache_shares: [f64; 3],
    /// k: how many times smaller the data and the memory are on which is trained. Printed: 10.
    pub scale: f64,
    /// p: operations between two looks at the mix. Printed: 10,000.
    pub period: u64,
    /// τ: by how much a kind's share must have moved. Printed: 10 %.
    pub threshold: f64,
    /// Mixes that are drawn within ρ of the expected one. Ours.
    pub uncertain_mixes: usize,
    /// What the squared coefficients of Poly cost. Ours: as good as nothing.
    pub poly_penalty: f64,
    /// Trees. The authors' code: XGBoost's defaults.
    pub trees: Boost,
    /// Layers of the network before its last. Printed: four in all.
    pub network_layers: usize,
    /// Units of each. Ours.
    pub network_width: usize,
    /// How often the network sees each sample. Ours.
    pub network_epochs: usize,
    /// Adam's rate. Ours: its own.
    pub network_rate: f32,
}

impl Default for CamalConstants {
    fn default() -> Self {
        CamalConstants {
            ratio_samples: 5,
            bits_samples: 5,
            cache_samples: 2,
            pair_samples: 9,
            bits_default: 10.0,
            cache_shares: [0.0, 0.2, 0.4],
            scale: 10.0,
            period: 10_000,
            threshold: 0.10,
            uncertain_mixes: 16,
            poly_penalty: 1e-6,
            trees: Boost { rounds: 100, depth: 6, rate: 0.3, penalty: 1.0, leaf_weight_min: 1.0 },
            network_layers: 3,
            network_width: 64,
            network_epochs: 300,
            network_rate: 1e-3,
        }
    }
}
