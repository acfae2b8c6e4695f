class M(Module):
  __parameters__ = ["weight", "bias", ]
  __buffers__ = []
  weight : Tensor
  bias : Tensor
  training : bool
  scale : Final[float] = 0.5
  def forward(self: __torch__.M,
    x: Tensor,
    y: Tensor) -> Tensor:
    _0 = "{} is {}"
    if torch.eq(torch.dim(x), 3):
      ops.prim.RaiseException(torch.format(_0, "x", torch.dim(x)))
      z = x
    else:
      z = torch.reshape(x, [-1, 3])
    a, b, c = torch.unbind(z, 1)
    fn = __torch__.helper
    return torch.stack([fn(a, 1, ), ([b, c])[-1]], -1)
def helper(x: Tensor,
    n: Optional[int]=None) -> Tensor:
  if torch.__isnot__(n, None):
    m = unchecked_cast(int, n)
  else:
    m = 0
  return torch.index_select(torch.pad(x, [m, m], "constant", 0.), 0, torch.tensor([0, 1]))
