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
    bias = self.bias
    weight = torch.view(self.weight, [2, 3])
    _0 = torch.linear(x, weight, None)
    _1 = torch.add(torch.matmul(_0, weight), bias, alpha=2)
    return torch.relu_(_1)
