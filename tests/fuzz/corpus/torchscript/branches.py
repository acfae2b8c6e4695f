class M(Module):
  __parameters__ = ["weight", "bias", ]
  __buffers__ = []
  weight : Tensor
  bias : Tensor
  training : bool
  scale : Final[float] = 0.5
  def forward(self: __torch__.M,
    x: Tensor,
    y: Tensor) -> Tuple[Tensor, List[int], Dict[str, Tensor]]:
    n = torch.size(x, 1)
    z = torch.mul(x, self.scale)
    if torch.gt(n, 2):
      z0 = torch.slice(z, 1, 0, 9223372036854775807, 2)
    else:
      z0 = torch.unsqueeze(z, 0)
    total = 0
    for i in range(n):
      total = torch.add(total, (torch.size(x))[1])
    while torch.lt(total, 20):
      total = torch.add(torch.mul(total, 2), 1)
    if bool(torch.gt(torch.sum(y), 0)):
      w = torch.add(y, total)
    else:
      w = torch.neg(y)
    parts = torch.split(z0, 1, 1)
    kept = annotate(List[Tensor], [])
    for part in parts:
      _0 = torch.append(kept, part)
    joined = torch.cat(kept, 1)
    out = {"joined": joined, "w": w}
    return (joined, [total, n], out)
