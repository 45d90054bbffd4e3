//! Symmetric systems of linear equations by Cholesky's decomposition: `Cholesky` is L, lower
//! triangular, with L Lᵀ = A.
//!
//! `of` decomposes, `forward` solves L x = b, `solve` solves A x = b, `half_ln_determinant` is for
//! likelihoods.
//!
//! What must hold: for a matrix that is not positive definite `of` gives `None`.
//!
//! Callers: `ridge`, and `gauss` for its covariances.

/// A lower triangular matrix L with L Lᵀ = A.
#[derive(Clone, Debug, PartialEq)]
pub struct Cholesky {
    size: usize,
    /// Row by row, with zeros above the diagonal.
    lower: Vec<f64>,
}

impl Cholesky {
    /// The decomposition of `matrix`, `size` rows one after another; `None` if it is not positive
    /// definite.
    pub fn of(matrix: &[f64], size: usize) -> Option<Cholesky> {
        assert_eq!(matrix.len(), size * size, "a square matrix has size² numbers");
        let mut lower = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..=row {
                let before = 0..column;
                let sum: f64 = before.map(|k| lower[row * size + k] * lower[column * size + k]).sum();
                let rest = matrix[row * size + column] - sum;
                lower[row * size + column] = if row == column {
                    if !(rest > 0.0 && rest.is_finite()) {
                        return None;
                    }
                    rest.sqrt()
                } else {
                    rest / lower[column * size + column]
                };
            }
        }
        Some(Cholesky { size, lower })
    }

    /// The x with L x = `right`.
    pub fn forward(&self, right: &[f64]) -> Vec<f64> {
        let size = self.size;
        let mut x = Vec::with_capacity(size);
        for (row, right) in right.iter().enumerate() {
            let sum: f64 = (0..row).map(|k| self.lower[row * size + k] * x[k]).sum();
            x.push((right - sum) / self.lower[row * size + row]);
        }
        x
    }

    /// The x with A x = `right`.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let size = self.size;
        let mut x = self.forward(right);
        for row in (0..size).rev() {
            let sum: f64 = (row + 1..size).map(|k| self.lower[k * size + row] * x[k]).sum();
            x[row] = (x[row] - sum) / self.lower[row * size + row];
        }
        x
    }

    /// Half of ln det A: the sum of the logarithms of L's diagonal.
    pub fn half_ln_determinant(&self) -> f64 {
        (0..self.size).map(|i| super::elementary::ln(self.lower[i * self.size + i])).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Random;

    #[test]
    fn a_known_matrix_is_decomposed_and_solved() {
        let matrix = [4.0, 12.0, -16.0, 12.0, 37.0, -43.0, -16.0, -43.0, 98.0];
        let cholesky = Cholesky::of(&matrix, 3).unwrap();
        assert_eq!(cholesky.lower, [2.0, 0.0, 0.0, 6.0, 1.0, 0.0, -8.0, 5.0, 3.0]);
        assert!((cholesky.half_ln_determinant() - 6f64.ln()).abs() < 1e-12);
        let x = cholesky.solve(&[1.0, 2.0, 3.0]);
        for row in 0..3 {
            let right: f64 = (0..3).map(|k| matrix[row * 3 + k] * x[k]).sum();
            assert!((right - (row + 1) as f64).abs() < 1e-9);
        }
    }

    #[test]
    fn what_is_not_positive_definite_has_none() {
        for matrix in [[1.0, 2.0, 2.0, 1.0], [0.0; 4], [f64::NAN, 0.0, 0.0, 1.0]] {
            assert_eq!(Cholesky::of(&matrix, 2), None, "{matrix:?}");
        }
    }

    #[test]
    fn random_systems_are_solved() {
        let mut random = Random::new(3);
        for size in 1..12 {
            let a: Vec<f64> = (0..size * size).map(|_| random.normal()).collect();
            let at = |i: usize, j: usize| (0..size).map(|k| a[i * size + k] * a[j * size + k]).sum::<f64>();
            let matrix: Vec<f64> = (0..size * size)
                .map(|n| at(n / size, n % size) + f64::from(u8::from(n / size == n % size)))
                .collect();
            let right: Vec<f64> = (0..size).map(|_| random.normal()).collect();
            let x = Cholesky::of(&matrix, size).unwrap().solve(&right);
            for row in 0..size {
                let sum: f64 = (0..size).map(|k| matrix[row * size + k] * x[k]).sum();
                assert!((sum - right[row]).abs() < 1e-8);
            }
        }
    }
}
