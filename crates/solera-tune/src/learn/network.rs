//! A fully connected network of `f32` (`Network`, hidden layers end in ReLU), its gradients, and
//! `Adam` (Kingma and Ba, ICLR 2015), which changes its weights.
//!
//! `forward` gives the output. `trace` keeps what each layer put out, `backward` adds up gradients,
//! `slopes` are those of the input, `approach` follows another network.
//!
//! What must hold: sums have one order. Weights lie input by input, so that a layer is a sum of
//! scaled rows; the compiler may do several outputs at once. A sum over outputs has `LANES` parts,
//! added in one fixed way.
//!
//! Callers: `ddpg`, and `regression` for `Kind::Network`.

use super::{bits, elementary::tanh, random::Random};
use serde::{Deserialize, Serialize};

/// Parts of a sum over outputs.
const LANES: usize = 8;

/// What the last layer ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// The sum as it is.
    Linear,
    /// Its hyperbolic tangent: −1 to 1.
    Tanh,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Layer {
    inputs: usize,
    outputs: usize,
    /// Weights, input by input; then the biases.
    #[serde(with = "bits")]
    weights: Vec<f32>,
}

impl Layer {
    fn biases(&self) -> &[f32] {
        &self.weights[self.inputs * self.outputs..]
    }

    fn forward(&self, from: &[f32], to: &mut Vec<f32>) {
        to.clear();
        to.extend_from_slice(self.biases());
        for (x, row) in from.iter().zip(self.weights.chunks_exact(self.outputs)) {
            if *x != 0.0 {
                to.iter_mut().zip(row).for_each(|(sum, weight)| *sum += x * weight);
            }
        }
    }
}

/// A network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    layers: Vec<Layer>,
    output: Output,
}

/// What each layer put out for one input: what gradients are computed from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The input, then each layer's output.
    outputs: Vec<Vec<f32>>,
}

impl Trace {
    /// The output of the network.
    pub fn output(&self) -> &[f32] {
        self.outputs.last().expect("a trace of a network")
    }
}

/// How much an error changes with each weight, summed over the inputs that were traced.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    layers: Vec<Vec<f32>>,
    errors: [Vec<f32>; 2],
}

impl Network {
    /// A network of layers of these sizes, the input's first. Weights are random and small (He's
    /// rule); those of the last layer, and all biases, begin within ±`last`.
    pub fn new(sizes: &[usize], output: Output, last: f32, random: &mut Random) -> Network {
        assert!(sizes.len() >= 2 && sizes.iter().all(|size| *size > 0), "layers of {sizes:?}");
        let count = sizes.len() - 1;
        let layer = |(number, pair): (usize, &[usize])| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let he = (6.0 / inputs as f32).sqrt();
            let limit = if number + 1 == count { last } else { he };
            let mut weights = Vec::with_capacity((inputs + 1) * outputs);
            weights.extend((0..inputs * outputs).map(|_| (2.0 * random.unit() as f32 - 1.0) * limit));
            weights.resize((inputs + 1) * outputs, 0.0);
            Layer { inputs, outputs, weights }
        };
        Network { layers: sizes.windows(2).enumerate().map(layer).collect(), output }
    }

    /// Numbers that the input has.
    pub fn inputs(&self) -> usize {
        self.layers[0].inputs
    }

    /// Whether it has the layers of `other`, so that it can take its place.
    pub fn is_like(&self, other: &Network) -> bool {
        let shape = |network: &Network| {
            let shapes =
                network.layers.iter().map(|layer| (layer.inputs, layer.outputs, layer.weights.len()));
            shapes.collect::<Vec<_>>()
        };
        self.output == other.output && shape(self) == shape(other)
    }

    /// A gradient of nothing.
    pub fn no_gradient(&self) -> Gradient {
        let layers = self.layers.iter().map(|layer| vec![0.0; layer.weights.len()]).collect();
        Gradient { layers, errors: [Vec::new(), Vec::new()] }
    }

    /// The output for `input`.
    pub fn forward(&self, input: &[f32]) -> Vec<f32> {
        let mut trace = Trace::default();
        self.trace(input, &mut trace);
        trace.outputs.pop().expect("there is a layer")
    }

    /// The output for `input`, with what gradients need.
    pub fn trace(&self, input: &[f32], trace: &mut Trace) {
        assert_eq!(input.len(), self.inputs(), "numbers of the input");
        trace.outputs.resize(self.layers.len() + 1, Vec::new());
        trace.outputs[0].clear();
        trace.outputs[0].extend_from_slice(input);
        for (number, layer) in self.layers.iter().enumerate() {
            let (before, after) = trace.outputs.split_at_mut(number + 1);
            let (from, to) = (&before[number], &mut after[0]);
            layer.forward(from, to);
            match (number + 1 == self.layers.len(), self.output) {
                (false, _) => to.iter_mut().for_each(|x| *x = if *x > 0.0 { *x } else { 0.0 }),
                (true, Output::Tanh) => to.iter_mut().for_each(|x| *x = tanh(f64::from(*x)) as f32),
                (true, Output::Linear) => {}
            }
        }
    }

    /// Adds to `gradient` how an error changes with the weights, where it changes by `errors` with
    /// the outputs of `trace`. Returns how it changes with the input.
    pub fn backward(&self, trace: &Trace, errors: &[f32], gradient: &mut Gradient) -> Vec<f32> {
        let mut buffers = std::mem::take(&mut gradient.errors);
        self.back(trace, errors, &mut buffers, |number, from, now| {
            let rows = gradient.layers[number].chunks_exact_mut(now.len());
            // The last row is of the biases, whose input is 1.
            for (x, row) in from.iter().chain([&1.0]).zip(rows) {
                if *x != 0.0 {
                    row.iter_mut().zip(now).for_each(|(sum, error)| *sum += x * error);
                }
            }
        });
        let of_input = buffers[0].clone();
        gradient.errors = buffers;
        of_input
    }

    /// How an error changes with the input, where it changes by `errors` with the outputs of
    /// `trace`.
    pub fn slopes(&self, trace: &Trace, errors: &[f32]) -> Vec<f32> {
        let mut buffers = [Vec::new(), Vec::new()];
        self.back(trace, errors, &mut buffers, |_, _, _| ());
        std::mem::take(&mut buffers[0])
    }

    /// Goes from the output back to the input, whose errors are then in the first buffer; `layer`
    /// is told each layer's inputs and the errors of its sums.
    fn back(
        &self,
        trace: &Trace,
        errors: &[f32],
        [now, next]: &mut [Vec<f32>; 2],
        mut layer: impl FnMut(usize, &[f32], &[f32]),
    ) {
        now.clear();
        now.extend_from_slice(errors);
        if self.output == Output::Tanh {
            now.iter_mut().zip(trace.output()).for_each(|(error, y)| *error *= 1.0 - y * y);
        }
        for (number, of) in self.layers.iter().enumerate().rev() {
            let from = &trace.outputs[number];
            layer(number, from, now);
            next.clear();
            let rows = of.weights.chunks_exact(of.outputs).take(of.inputs);
            // Behind ReLU, what was not passed on does not count.
            let passed = |x: &f32| number == 0 || *x > 0.0;
            next.extend(rows.zip(from).map(|(row, x)| if passed(x) { dot(row, now) } else { 0.0 }));
            std::mem::swap(now, next);
        }
    }

    /// Moves every weight towards that of `other`, a network of the same sizes, by `share` of the
    /// distance.
    pub fn approach(&mut self, other: &Network, share: f32) {
        for (layer, other) in self.layers.iter_mut().zip(&other.layers) {
            assert_eq!(layer.weights.len(), other.weights.len(), "networks of other sizes");
            for (weight, other) in layer.weights.iter_mut().zip(&other.weights) {
                *weight += share * (other - *weight);
            }
        }
    }

    /// Every weight, layer by layer.
    pub fn weights(&self) -> impl Iterator<Item = f32> {
        self.layers.iter().flat_map(|layer| layer.weights.iter().copied())
    }
}

impl Gradient {
    /// Makes it a gradient of nothing again.
    pub fn clear(&mut self) {
        self.layers.iter_mut().for_each(|layer| layer.fill(0.0));
    }
}

/// Σ a b, in [`LANES`] parts.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_chunks.remainder().iter().zip(b_chunks.remainder());
    let rest = rest.fold(0.0, |sum, (x, y)| sum + x * y);
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    let pairs = [lanes[0] + lanes[4], lanes[1] + lanes[5], lanes[2] + lanes[6], lanes[3] + lanes[7]];
    (pairs[0] + pairs[2]) + (pairs[1] + pairs[3]) + rest
}

/// Adam (Kingma and Ba, ICLR 2015), with its own constants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    rate: f32,
    /// Running means of the gradient and of its square, layer by layer.
    moments: Vec<Moments>,
    /// β₁ and β₂ to the power of the steps.
    fading: (f32, f32),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Moments {
    #[serde(with = "bits")]
    means: Vec<f32>,
    #[serde(with = "bits")]
    squares: Vec<f32>,
}

impl Adam {
    const MEAN_KEPT: f32 = 0.9;
    const SQUARE_KEPT: f32 = 0.999;
    const NOT_ZERO: f32 = 1e-8;

    /// For a network of the sizes of this one, with steps of about `rate`.
    pub fn new(network: &Network, rate: f32) -> Adam {
        let none = |layer: &Layer| vec![0.0; layer.weights.len()];
        let moments = network.layers.iter().map(|layer| Moments { means: none(layer), squares: none(layer) });
        Adam { rate, moments: moments.collect(), fading: (1.0, 1.0) }
    }

    /// Whether it is for such a network.
    pub fn is_of(&self, network: &Network) -> bool {
        self.moments.len() == network.layers.len()
            && self.moments.iter().zip(&network.layers).all(|(moments, layer)| {
                [&moments.means, &moments.squares].iter().all(|of| of.len() == layer.weights.len())
            })
    }

    /// A step down the gradient, which is first multiplied by `scale` (one over the number of
    /// inputs, for a mean).
    pub fn step(&mut self, network: &mut Network, gradient: &Gradient, scale: f32) {
        self.fading = (self.fading.0 * Self::MEAN_KEPT, self.fading.1 * Self::SQUARE_KEPT);
        let (mean_part, square_part) = (1.0 - self.fading.0, 1.0 - self.fading.1);
        let layers = network.layers.iter_mut().zip(&gradient.layers);
        for ((layer, gradient), Moments { means, squares }) in layers.zip(&mut self.moments) {
            let weights = layer.weights.iter_mut().zip(gradient);
            for ((weight, slope), (mean, square)) in weights.zip(means.iter_mut().zip(squares)) {
                let slope = slope * scale;
                *mean = Self::MEAN_KEPT * *mean + (1.0 - Self::MEAN_KEPT) * slope;
                *square = Self::SQUARE_KEPT * *square + (1.0 - Self::SQUARE_KEPT) * slope * slope;
                *weight -=
                    self.rate * (*mean / mean_part) / ((*square / square_part).sqrt() + Self::NOT_ZERO);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::digest;

    fn error(network: &Network, input: &[f32], wanted: &[f32]) -> f32 {
        network.forward(input).iter().zip(wanted).map(|(y, wanted)| (y - wanted) * (y - wanted)).sum()
    }

    #[test]
    fn gradients_are_the_slopes_of_the_error() {
        let mut random = Random::new(2);
        for output in [Output::Linear, Output::Tanh] {
            let mut network = Network::new(&[3, 17, 9, 2], output, 0.5, &mut random);
            let input: Vec<f32> = (0..3).map(|_| random.normal() as f32).collect();
            let wanted = [0.3, -0.2];
            let (mut trace, mut gradient) = (Trace::default(), network.no_gradient());
            network.trace(&input, &mut trace);
            let errors: Vec<f32> =
                trace.output().iter().zip(wanted).map(|(y, wanted)| 2.0 * (y - wanted)).collect();
            let of_input = network.backward(&trace, &errors, &mut gradient);
            let step = 2e-4;
            for layer in 0..3 {
                for at in (0..network.layers[layer].weights.len()).step_by(5) {
                    let mut of = |by: f32| {
                        network.layers[layer].weights[at] += by;
                        let error = error(&network, &input, &wanted);
                        network.layers[layer].weights[at] -= by;
                        error
                    };
                    let slope = (of(step) - of(-step)) / (2.0 * step);
                    assert!((slope - gradient.layers[layer][at]).abs() < 2e-2, "{layer} {at}: {slope}");
                }
            }
            for at in 0..3 {
                let of = |by: f32| {
                    let mut input = input.clone();
                    input[at] += by;
                    error(&network, &input, &wanted)
                };
                let slope = (of(step) - of(-step)) / (2.0 * step);
                assert!((slope - of_input[at]).abs() < 2e-2, "input {at}: {slope} for {}", of_input[at]);
            }
        }
    }

    fn fitted(steps: usize) -> Network {
        let mut random = Random::new(8);
        let mut network = Network::new(&[1, 24, 24, 1], Output::Linear, 0.1, &mut random);
        let (mut adam, mut trace) = (Adam::new(&network, 3e-3), Trace::default());
        let mut gradient = network.no_gradient();
        for _ in 0..steps {
            gradient.clear();
            for _ in 0..16 {
                let x = 2.0 * random.unit() as f32 - 1.0;
                network.trace(&[x], &mut trace);
                let error = 2.0 * (trace.output()[0] - x * x);
                network.backward(&trace, &[error], &mut gradient);
            }
            adam.step(&mut network, &gradient, 1.0 / 16.0);
        }
        network
    }

    #[test]
    fn a_parabola_is_learned() {
        let network = fitted(1500);
        for x in [-1.0f32, -0.5, 0.0, 0.25, 1.0] {
            let y = network.forward(&[x])[0];
            assert!((y - x * x).abs() < 0.03, "{x}: {y}");
        }
    }

    /// Fifty steps of Adam on the mean squared error of four points, as PyTorch 2.15 takes them
    /// from the same weights.
    #[test]
    fn learning_goes_the_way_of_pytorch() {
        let mut network = Network::new(&[2, 5, 4, 1], Output::Tanh, 0.1, &mut Random::new(1));
        for (layer, offset) in network.layers.iter_mut().zip([0, 3, 6]) {
            let weights = layer.inputs * layer.outputs;
            let first = |k: usize| ((k + offset) * 7 % 11) as f32;
            (0..weights).for_each(|k| layer.weights[k] = (first(k) - 5.0) / 10.0);
        }
        let points = [([0.5, -1.0], 0.3), ([1.0, 0.25], -0.2), ([-0.75, 0.5], 0.5), ([0.1, 0.9], 0.0)];
        let agree = |network: &Network, theirs: [f32; 4]| {
            let ours = points.map(|(x, _)| network.forward(&x)[0]);
            assert!(ours.iter().zip(theirs).all(|(ours, theirs)| (ours - theirs).abs() < 1e-5), "{ours:?}");
        };
        agree(&network, [-0.05594153, -0.09273281, 0.039729077, -0.034386434]);
        let (mut adam, mut trace) = (Adam::new(&network, 0.01), Trace::default());
        for _ in 0..50 {
            let mut gradient = network.no_gradient();
            for (x, y) in points {
                network.trace(&x, &mut trace);
                let error = 2.0 * (trace.output()[0] - y);
                network.backward(&trace, &[error], &mut gradient);
            }
            adam.step(&mut network, &gradient, 0.25);
        }
        agree(&network, [0.30767027, -0.19210418, 0.4766464, 0.0034182535]);
    }

    /// The first step of Adam is the rate, against the gradient's sign, whatever its size.
    #[test]
    fn the_first_step_of_adam_is_its_rate() {
        let mut network = Network::new(&[1, 1], Output::Linear, 0.5, &mut Random::new(1));
        let before = network.clone();
        let (mut trace, mut gradient) = (Trace::default(), network.no_gradient());
        network.trace(&[2.0], &mut trace);
        network.backward(&trace, &[1e3], &mut gradient);
        Adam::new(&network, 0.01).step(&mut network, &gradient, 1.0);
        for (after, before) in network.weights().zip(before.weights()) {
            assert!((before - after - 0.01).abs() < 1e-6);
        }
    }

    #[test]
    fn one_approaches_another() {
        let mut random = Random::new(3);
        let mut network = Network::new(&[2, 4, 1], Output::Tanh, 0.1, &mut random);
        let other = Network::new(&[2, 4, 1], Output::Tanh, 0.1, &mut random);
        (0..2000).for_each(|_| network.approach(&other, 0.01));
        assert!(network.weights().zip(other.weights()).all(|(a, b)| (a - b).abs() < 1e-4));
    }

    #[test]
    fn it_gives_the_same_bits_on_every_processor() {
        assert_eq!(digest(fitted(50).weights().map(f64::from)), 0x4a11_e9a6_3afc_64bd);
    }
}
