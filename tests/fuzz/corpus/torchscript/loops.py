class L2(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  _is_full_backward_hook : Optional[bool]
  lstm : __torch__.torch.nn.modules.rnn.LSTM
  ls : __torch__.torch.nn.modules.container.ModuleList
  def forward(s: __torch__.L2,
    x: Tensor,
    n: int=3) -> Tuple[Tensor, List[Tensor], int]:
    lstm = s.lstm
    y, _0, = (lstm).forward__0(x, None, )
    ls = s.ls
    _00 = getattr(ls, "0")
    _1 = getattr(ls, "1")
    _2 = getattr(ls, "2")
    y0 = (_00).forward(y, )
    y1 = (_1).forward(y0, )
    y2 = (_2).forward(y1, )
    y3 = y2
    for i in range(n):
      if bool(torch.gt(torch.sum(y3), 0)):
        y4 = torch.add(y3, i)
      else:
        y4 = torch.mul(y3, 2)
      y3 = y4
    y5 = y3
    z = 0
    _3 = bool(torch.lt(torch.max(y3), 10.))
    while _3:
      y6 = torch.add(y5, 1)
      z0 = torch.add(z, 2)
      _4 = bool(torch.lt(torch.max(y6), 10.))
      _3, y5, z = _4, y6, z0
    d = {"a": y5, "b": x}
    if torch.eq(torch.dim(x), 3):
      pass
    else:
      ops.prim.RaiseException("AssertionError: no")
    t = torch.zeros_like(y5)
    _5 = torch.select(torch.slice(t), 1, 0)
    _6 = torch.tensor(5, dtype=ops.prim.dtype(_5), device=ops.prim.device(_5))
    _7 = torch.copy_(_5, _6)
    t0 = torch.add_(t, 1)
    _8 = (torch.sum(d["a"]), [y5, torch.select(x, 0, 0), t0], z)
    return _8
