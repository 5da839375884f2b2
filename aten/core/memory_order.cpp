#include "aten/core/memory_order.h"

#include "aten/core/factory.h"
#include "aten/core/memory_format.h"
#include "aten/core/shape.h"
#include "aten/core/view.h"

namespace flambeau {

bool is_channels_last_ordered(const Tensor& self) {
  const int64_t ndim = self.dim();
  if ((ndim != 4 && ndim != 5) || self.strides()[1] == 0) return false;
  DimVector outwards = {1};
  for (int64_t d = ndim - 1; d > 1; --d) outwards.push_back(d);
  outwards.push_back(0);
  int64_t extent = 0;  // of the dimensions further inside
  for (const int64_t d : outwards) {
    const int64_t size = self.size(d), stride = self.strides()[static_cast<size_t>(d)];
    if (size == 0 || stride < extent) return false;
    // One channel, and pixels that follow each other: row-major as well, and taken for that.
    if (d == 0 && extent == self.strides()[1]) return false;
    extent = stride * size;
  }
  return true;
}

MemoryFormat memory_format_of(const Tensor& self) {
  if (!is_channels_last_ordered(self)) return MemoryFormat::Contiguous;
  return self.dim() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

DimVector strides_of_format(IntArrayRef sizes, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return {};
  const bool volume = format == MemoryFormat::ChannelsLast3d;
  check(sizes.size() == (volume ? 5 : 4), "channels_last", volume ? "_3d" : "", ": expected ",
        volume ? 5 : 4, " dimensions, got shape ", sizes);
  return channels_last_strides(sizes);
}

void keep_format(const Tensor& model, OutSpec* out) {
  if (static_cast<int64_t>(out->sizes.size()) == model.dim() && is_channels_last_ordered(model))
    out->strides = channels_last_strides(out->sizes);
}

Tensor dense_in_format_of(const Tensor& self, const Tensor& format_model) {
  if (self.dim() != format_model.dim() || !is_channels_last_ordered(format_model))
    return contiguous_tensor(self);
  const DimVector strides = channels_last_strides(self.sizes());
  if (self.strides() == strides.ref()) return self;
  const MemoryFormat format =
      self.dim() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
  if (self.is_contiguous(format)) {  // differs along dimensions of size 1 only
    return plain_view(self, {DimVector(self.sizes()), strides, self.storage_offset()});
  }
  Tensor copy = empty_strided_tensor(self.sizes(), strides, self.dtype(), self.device());
  copy_into(copy, self);
  return copy;
}

Tensor channels_to_back(const Tensor& self) {
  ViewGeometry geometry{DimVector(self.sizes()), DimVector(self.strides()), self.storage_offset()};
  for (DimVector* list : {&geometry.sizes, &geometry.strides}) {
    const int64_t channels = (*list)[1];
    list->erase(1);
    list->push_back(channels);
  }
  return plain_view(self, geometry);
}

int64_t dim_with_channels_at_back(int64_t dim, int64_t ndim) {
  if (dim == 0) return 0;
  return dim == 1 ? ndim - 1 : dim - 1;
}

}  // namespace flambeau
