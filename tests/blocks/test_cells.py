"""Cells: each is its equation, as the lectures give it, and as the library's kernel computes it."""

import pytest
import torch
from torch import nn

from saccade.blocks.cells import (
    CELLS,
    GRU,
    LSTM,
    RNN,
    Cell,
    GRUResetBefore,
    chrono_init,
    gaussian_init,
)
from saccade.blocks.norms import BatchNormOverTime, LayerNorm, RMSNorm
from saccade.errors import InputError

N, IN, D = 3, 5, 4
TORCH = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}
each_cell = pytest.mark.parametrize("name", CELLS)


def gates(cell, block):
    """The weights of one gate: a matrix for the input, one for the hidden vector, one bias."""
    rows = slice(block * cell.dim, (block + 1) * cell.dim)
    return cell.weight_ih[rows].T, cell.weight_hh[rows].T, (cell.bias_ih + cell.bias_hh)[rows]


def set_gate(cell, block, value):
    """Make a gate say the same whatever it reads."""
    with torch.no_grad():
        for weight in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh):
            weight[block * cell.dim : (block + 1) * cell.dim] = 0
        cell.bias_ih[block * cell.dim : (block + 1) * cell.dim] = value


def test_a_plain_cell_is_one_product_of_concatenations():
    x, h = torch.randn(3, 1), torch.randn(3, 4)
    cell = RNN(1, 4)
    w_xh, w_hh, bias = gates(cell, 0)
    assert (w_xh.shape, w_hh.shape) == ((1, 4), (4, 4))
    joint = torch.cat([x, h], dim=1) @ torch.cat([w_xh, w_hh]) + bias
    torch.testing.assert_close(x @ w_xh + h @ w_hh + bias, joint)
    torch.testing.assert_close(cell(x, (h,))[0], torch.tanh(joint))


def test_the_gates_of_an_lstm():
    cell, x, h, c = LSTM(IN, D), torch.randn(N, IN), torch.randn(N, D), torch.randn(N, D)
    parts = [x @ w + h @ u + b for w, u, b in (gates(cell, block) for block in range(4))]
    write, forget, output = (torch.sigmoid(parts[block]) for block in (0, 1, 3))
    memory = forget * c + write * torch.tanh(parts[2])
    torch.testing.assert_close(cell(x, (h, c)), (output * torch.tanh(memory), memory))


def test_an_lstm_that_forgets_nothing_and_writes_nothing_holds_its_memory_for_ever():
    cell, memory = LSTM(IN, D), torch.randn(N, D)
    set_gate(cell, 0, -200.0)  # I = 0, exactly
    set_gate(cell, 1, 200.0)  # F = 1
    state = (torch.randn(N, D), memory)
    for _ in range(150):
        state = cell(torch.randn(N, IN), state)
    assert torch.equal(state[1], memory)


@pytest.mark.parametrize("kind", [GRU, GRUResetBefore])
def test_a_gru_whose_update_gate_is_one_copies_its_hidden_vector(kind):
    cell, h = kind(IN, D), torch.randn(N, D)
    set_gate(cell, 1, 200.0)
    state = (h,)
    for _ in range(150):
        state = cell(torch.randn(N, IN), state)
    assert torch.equal(state[0], h)


@pytest.mark.parametrize("kind", [GRU, GRUResetBefore])
def test_a_gru_is_a_plain_cell_only_when_reset_is_one_and_update_zero(kind):
    cell, plain = kind(IN, D), RNN(IN, D)
    plain.load_state_dict({k: v[2 * D :] for k, v in cell.state_dict().items()})
    x, h = torch.randn(N, IN), torch.randn(N, D)
    set_gate(cell, 0, 200.0)
    assert not torch.allclose(cell(x, (h,))[0], plain(x, (h,))[0])
    set_gate(cell, 1, -200.0)
    torch.testing.assert_close(cell(x, (h,)), plain(x, (h,)))


def test_reset_before_is_a_plain_loop_over_numbers():
    cell, x, h = GRUResetBefore(IN, D).double(), torch.randn(N, IN).double(), torch.randn(N, D)
    h = h.double()
    weights = [[part.tolist() for part in gates(cell, block)] for block in range(3)]

    def unit(block, inputs, hidden, d):
        w, u, b = weights[block]
        total = b[d]
        for i, value in enumerate(inputs):
            total += value * w[i][d]
        for k, value in enumerate(hidden):
            total += value * u[k][d]
        return torch.tensor(total, dtype=torch.double)

    expected = torch.zeros(N, D).double()
    for n in range(N):
        before = h[n].tolist()
        reset = [float(unit(0, x[n].tolist(), before, d).sigmoid()) for d in range(D)]
        kept = [r * value for r, value in zip(reset, before, strict=True)]  # before the product
        for d in range(D):
            update = unit(1, x[n].tolist(), before, d).sigmoid()
            candidate = unit(2, x[n].tolist(), kept, d).tanh()
            expected[n, d] = update * before[d] + (1 - update) * candidate
    torch.testing.assert_close(cell(x, (h,))[0], expected, rtol=0, atol=1e-12)
    after = GRU(IN, D).double()
    after.load_state_dict(cell.state_dict())
    assert not torch.allclose(after(x, (h,))[0], expected)  # the two forms differ


@pytest.mark.parametrize("name", TORCH)
def test_equation_kernel_and_torch_agree_forward_and_backward(name):
    cell, theirs = CELLS[name](IN, D).double(), TORCH[name](IN, D).double()
    theirs.load_state_dict(cell.state_dict())
    x = torch.randn(N, IN, dtype=torch.double)
    begin = [torch.randn(N, D, dtype=torch.double) for _ in range(cell.vectors)]
    upstream = torch.randn(cell.vectors, N, D, dtype=torch.double)

    def by_torch(x, state):
        made = theirs(x, state if len(state) > 1 else state[0])
        return made if len(state) > 1 else (made,)

    seen = []
    for module, step in [(cell, cell), (cell, cell.fused), (theirs, by_torch)]:
        module.zero_grad()
        inputs = [part.clone().requires_grad_() for part in (x, *begin)]
        made = step(inputs[0], tuple(inputs[1:]))
        torch.stack(made).backward(upstream)
        grads = [part.grad for part in (*inputs, *module.parameters())]
        seen.append([*(part.detach() for part in made), *(grad.clone() for grad in grads)])
    for other in seen[1:]:
        torch.testing.assert_close(seen[0], other, rtol=0, atol=1e-9)


def test_a_class_derived_from_ours_is_not_taken_for_it():
    class Doubled(LSTM):
        def forward(self, x, state):
            return super().forward(2 * x, state)

    cell, x = Doubled(IN, D), torch.randn(N, IN)
    torch.testing.assert_close(cell.fused(x, cell.zero(N)), cell(x, cell.zero(N)))


@each_cell
def test_weights_begin_as_torchs_or_as_a_narrow_gaussian(name):
    cell = CELLS[name](300, 100)
    bound = 1 / 100**0.5
    assert all(weight.abs().max() <= bound for weight in cell.parameters())
    assert cell.weight_ih.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    gaussian_init(cell)
    assert not cell.bias_ih.any()
    assert not cell.bias_hh.any()
    for weight in (cell.weight_ih, cell.weight_hh):
        assert weight.std().item() == pytest.approx(0.01, rel=0.05)


@each_cell
def test_states_are_zero_or_begin_with_a_given_vector(name):
    cell = CELLS[name](IN, D).double()
    state = cell.zero(N)
    assert len(state) == cell.vectors
    assert all(part.shape == (N, D) and part.dtype == torch.double for part in state)
    assert not any(part.any() for part in state)
    h = torch.randn(N, D).double()
    begun = cell.begin(h)
    assert begun[0] is h
    assert not any(part.any() for part in begun[1:])
    assert cell(torch.randn(0, IN).double(), cell.zero(0))[0].shape == (0, D)


@pytest.mark.parametrize(("input_dim", "dim"), [(0, 4), (4, 0), (3, -1), (-2, 3)])
@each_cell
def test_a_cell_without_width_is_refused(name, input_dim, dim):
    with pytest.raises(InputError, match="at least 1"):
        CELLS[name](input_dim, dim)


# --- norms inside ------------------------------------------------------------------------------


@each_cell
def test_layer_norm_inside_makes_the_scale_of_the_input_irrelevant(name):
    cell, x = CELLS[name](IN, D, LayerNorm), torch.randn(N, IN)
    for scale in (0.5, 1000.0):
        torch.testing.assert_close(
            cell(x, cell.zero(N)), cell(scale * x, cell.zero(N)), atol=1e-3, rtol=0
        )
    plain = CELLS[name](IN, D)
    assert not torch.allclose(plain(x, plain.zero(N))[0], plain(1000 * x, plain.zero(N))[0])


def test_where_the_norms_of_an_lstm_stand():
    """Ba et al. 2016, eq. 20-22: LN(W_h h) + LN(W_x x) + b, and o * tanh(LN(c))."""
    cell, x, h, c = LSTM(IN, D, LayerNorm), torch.randn(N, IN), torch.randn(N, D), torch.randn(N, D)
    normed = torch.layer_norm
    total = normed(x @ cell.weight_ih.T, (4 * D,)) + cell.bias_ih
    total = total + normed(h @ cell.weight_hh.T, (4 * D,)) + cell.bias_hh
    write, forget, candidate, output = total.chunk(4, dim=1)
    memory = forget.sigmoid() * c + write.sigmoid() * candidate.tanh()
    expected = output.sigmoid() * normed(memory, (D,)).tanh()
    torch.testing.assert_close(cell(x, (h, c)), (expected, memory))
    assert torch.equal(cell.fused(x, (h, c))[0], cell(x, (h, c))[0])  # no kernel leaves it out


@each_cell
@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
def test_a_row_of_a_normed_cell_is_alone(name, norm):
    cell, x = CELLS[name](IN, D, norm), torch.randn(N, IN)
    torch.testing.assert_close(cell(x, cell.zero(N))[0][1:2], cell(x[1:2], cell.zero(1))[0])


@each_cell
def test_batch_norm_keeps_statistics_of_each_step_and_a_row_knows_its_own(name):
    cell = CELLS[name](IN, D, BatchNormOverTime)
    state = cell.zero(64)
    for scale in (1.0, 10.0):  # the second step sees larger inputs
        state = cell(scale * torch.randn(64, IN), state)
    assert state[-1].unique().tolist() == [2]
    assert cell.norm_ih.batches[:3].tolist() == [1, 1, 0]
    assert (cell.norm_ih.variance[1] > cell.norm_ih.variance[0]).all()

    cell.eval()
    x = torch.randn(2, IN)
    young, old = cell.zero(1), cell(torch.randn(1, IN), cell.zero(1))
    both = tuple(torch.cat(parts) for parts in zip(young, old, strict=True))
    made = cell(x, both)
    for row, state in enumerate((young, old)):
        torch.testing.assert_close(made[0][row : row + 1], cell(x[row : row + 1], state)[0])
    with pytest.raises(InputError, match="statistics of 2 time steps, the sequence has 3"):
        cell(x[:1], cell(x[:1], old))


def test_batch_norm_of_rows_of_different_age_in_training():
    norm, x = BatchNormOverTime(D), torch.randn(6, D, requires_grad=True)
    times = torch.tensor([0, 2, 0, 2, 2, 0])
    y = norm.at(x, times)
    other = BatchNormOverTime(D)
    for time in (0, 2):
        rows = times == time
        torch.testing.assert_close(y[rows], other(x[rows].unsqueeze(1), start=time)[:, 0])
    torch.testing.assert_close(norm.state_dict(), other.state_dict())
    y.square().sum().backward()
    assert x.grad.isfinite().all()


def test_the_contract_has_no_equation_of_its_own():
    with pytest.raises(NotImplementedError):
        Cell(IN, D)(torch.randn(N, IN), (torch.randn(N, D),))


@pytest.mark.parametrize("kind", [LSTM, GRU, GRUResetBefore])
def test_gates_open_for_so_many_steps_keep_what_is_there_about_so_long(kind):
    cell = kind(IN, 400)
    chrono_init(cell, 100)
    keeps = torch.sigmoid((cell.bias_ih + cell.bias_hh)[400:800])
    steps = keeps / (1 - keeps)  # sigmoid(log u) = u / (u + 1)
    assert 1 - 1e-3 <= steps.min() < 3
    assert 97 < steps.max() <= 99 + 1e-2
    if kind is LSTM:
        writes = torch.sigmoid((cell.bias_ih + cell.bias_hh)[:400])
        torch.testing.assert_close(writes, 1 - keeps, atol=1e-5, rtol=0)
    plain = RNN(IN, D)
    before = plain.bias_ih.clone()
    chrono_init(plain, 100)  # nothing in it keeps
    assert torch.equal(plain.bias_ih, before)
