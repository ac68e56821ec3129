#include "topologies/files/pci_devices.h"

#include <algorithm>
#include <array>

namespace pipesim {
namespace {

using enum GpuProduct::Wiring;

// Where a kind has several products, the first one stands for it.
constexpr std::array<GpuProduct, 51> kGpuProducts{
    {{kNvidiaVendor, 0x102d, "Tesla K80", "K80", 37, 0, None},
     {kNvidiaVendor, 0x15f8, "Tesla P100-PCIE-16GB", "P100-PCIe", 60, 0, None},
     {kNvidiaVendor, 0x15f9, "Tesla P100-SXM2-16GB", "P100-SXM2", 60, 4, Unknown},
     {kNvidiaVendor, 0x1db1, "Tesla V100-SXM2-16GB", "V100-SXM2-16GB", 70, 6, CubeMesh},
     {kNvidiaVendor, 0x1db4, "Tesla V100-PCIE-16GB", "V100-PCIe", 70, 0, None},
     {kNvidiaVendor, 0x1db5, "Tesla V100-SXM2-32GB", "V100-SXM2-32GB", 70, 6, CubeMesh},
     {kNvidiaVendor, 0x1db8, "Tesla V100-SXM3-32GB", "V100-SXM2-32GB", 70, 6, Switch},
     {kNvidiaVendor, 0x20b0, "NVIDIA A100-SXM4-40GB", "A100-40GB", 80, 12, Switch},
     {kNvidiaVendor, 0x20b2, "NVIDIA A100-SXM4-80GB", "A100-80GB", 80, 12, Switch},
     {kNvidiaVendor, 0x20b5, "NVIDIA A100 80GB PCIe", "A100-80GB", 80, 12, Bridge},
     {kNvidiaVendor, 0x20f1, "NVIDIA A100-PCIE-40GB", "A100-40GB", 80, 12, Bridge},
     {kNvidiaVendor, 0x20f3, "NVIDIA A800-SXM4-80GB", "A800", 80, 8, Switch},
     {kNvidiaVendor, 0x20f5, "NVIDIA A800 80GB PCIe", "A800", 80, 8, Bridge},
     {kNvidiaVendor, 0x2204, "NVIDIA GeForce RTX 3090", "RTX-3090", 86, 4, Bridge},
     {kNvidiaVendor, 0x2321, "NVIDIA H100 NVL", "H100-NVL", 90, 18, Bridge},
     {kNvidiaVendor, 0x2324, "NVIDIA H800", "H800", 90, 8, Switch},
     {kNvidiaVendor, 0x2329, "NVIDIA H20", "H20", 90, 18, Switch},
     {kNvidiaVendor, 0x2330, "NVIDIA H100 80GB HBM3", "H100-SXM5", 90, 18, Switch},
     {kNvidiaVendor, 0x2331, "NVIDIA H100 PCIe", "H100-PCIe", 90, 12, Bridge},
     {kNvidiaVendor, 0x2335, "NVIDIA H200", "H200", 90, 18, Switch},
     {kNvidiaVendor, 0x233b, "NVIDIA H200 NVL", "H200", 90, 18, Bridge},
     {kNvidiaVendor, 0x2684, "NVIDIA GeForce RTX 4090", "RTX-4090", 89, 0, None},
     {kNvidiaVendor, 0x26b9, "NVIDIA L40S", "L40S", 89, 0, None},
     {kNvidiaVendor, 0x27b8, "NVIDIA L4", "L4", 89, 0, None},
     {kNvidiaVendor, 0x2901, "NVIDIA B200", "B200", 100, 18, Switch},
     {kNvidiaVendor, 0x2909, "NVIDIA B200", "B200", 100, 18, Switch},
     {kNvidiaVendor, 0x2941, "NVIDIA GB200", "GB200", 100, 18, Switch},
     {kNvidiaVendor, 0x2b85, "NVIDIA GeForce RTX 5090", "RTX-5090", 120, 0, None},
     {kNvidiaVendor, 0x2bb5, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000", 120, 0, None},
     {kNvidiaVendor, 0x2bb1, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000", 120, 0,
      None},
     {kNvidiaVendor, 0x3182, "NVIDIA B300 SXM6 AC", "B300", 103, 18, Switch},
     {kNvidiaVendor, 0x31c2, "NVIDIA GB300", "GB300", 103, 18, Switch},
     {kNvidiaVendor, 0x31c3, "NVIDIA GB300", "GB300", 103, 18, Switch},
     {kAmdVendor, 0x738c, "AMD Instinct MI100", "MI100", 0, 3, Unknown},
     {kAmdVendor, 0x738e, "AMD Instinct MI100", "MI100", 0, 3, Unknown},
     {kAmdVendor, 0x7408, "AMD Instinct MI250X", "MI250X", 0, 8, Unknown},
     {kAmdVendor, 0x740c, "AMD Instinct MI250X / MI250", "MI250X", 0, 8, Unknown},
     {kAmdVendor, 0x740f, "AMD Instinct MI210", "MI210", 0, 3, Bridge},
     {kAmdVendor, 0x74a0, "AMD Instinct MI300A", "MI300A", 0, 6, Unknown},
     {kAmdVendor, 0x74a1, "AMD Instinct MI300X", "MI300X", 0, 7, Mesh},
     {kAmdVendor, 0x74b5, "AMD Instinct MI300X VF", "MI300X", 0, 7, Mesh},
     {kAmdVendor, 0x74a9, "AMD Instinct MI300X HF", "MI300X", 0, 7, Mesh},
     {kAmdVendor, 0x74bd, "AMD Instinct MI300X HF VF", "MI300X", 0, 7, Mesh},
     {kAmdVendor, 0x74a5, "AMD Instinct MI325X", "MI325X", 0, 7, Mesh},
     {kAmdVendor, 0x74b9, "AMD Instinct MI325X VF", "MI325X", 0, 7, Mesh},
     {kAmdVendor, 0x75a0, "AMD Instinct MI350X", "MI350X", 0, 7, Mesh},
     {kAmdVendor, 0x75b0, "AMD Instinct MI350X VF", "MI350X", 0, 7, Mesh},
     {kAmdVendor, 0x75a3, "AMD Instinct MI355X", "MI355X", 0, 7, Mesh},
     {kAmdVendor, 0x75b3, "AMD Instinct MI355X VF", "MI355X", 0, 7, Mesh},
     {kNvidiaVendor, 0x1df5, "Tesla V100-SXM2-16GB", "V100-SXM2-16GB", 70, 6, CubeMesh},
     {kNvidiaVendor, 0x20b1, "NVIDIA A100-PCIE-40GB", "A100-40GB", 80, 12, Bridge}}};

constexpr std::int64_t kMellanox = 0x15b3, kAmazon = 0x1d0f, kBroadcom = 0x14e4, kHpe = 0x17db,
                       kIntel = 0x8086;

// Rates: NVIDIA's and the others' product briefs; AWS's pages of p4d, p5, p5en and p6 for the Elastic Fabric
// Adapter, whose ids and latencies github.com/aws/aws-ofi-nccl names (src/platform-aws.cpp).
constexpr std::array<NicProduct, 30> kNicProducts{{{kMellanox, 0x1011, "Connect-IB", 56},
                                                   {kMellanox, 0x1013, "ConnectX-4", 100},
                                                   {kMellanox, 0x1014, "ConnectX-4 virtual function", 100},
                                                   {kMellanox, 0x1015, "ConnectX-4 Lx", 25},
                                                   {kMellanox, 0x1016, "ConnectX-4 Lx virtual function", 25},
                                                   {kMellanox, 0x1017, "ConnectX-5", 100},
                                                   {kMellanox, 0x1018, "ConnectX-5 virtual function", 100},
                                                   {kMellanox, 0x1019, "ConnectX-5 Ex", 100},
                                                   {kMellanox, 0x101a, "ConnectX-5 Ex virtual function", 100},
                                                   {kMellanox, 0x101b, "ConnectX-6", 200},
                                                   {kMellanox, 0x101c, "ConnectX-6 virtual function", 200},
                                                   {kMellanox, 0x101d, "ConnectX-6 Dx", 100},
                                                   {kMellanox, 0x101f, "ConnectX-6 Lx", 25},
                                                   {kMellanox, 0x1021, "ConnectX-7", 400},
                                                   {kMellanox, 0x1023, "ConnectX-8", 800},
                                                   {kMellanox, 0xa2d6, "BlueField-2", 200},
                                                   {kMellanox, 0xa2dc, "BlueField-3", 400},
                                                   {kAmazon, 0xefa0, "Elastic Fabric Adapter", 100, 75},
                                                   {kAmazon, 0xefa1, "Elastic Fabric Adapter", 100, 75},
                                                   {kAmazon, 0xefa2, "Elastic Fabric Adapter", 200, 35},
                                                   {kAmazon, 0xefa3, "Elastic Fabric Adapter", 400, 35},
                                                   {kBroadcom, 0x1750, "BCM57508", 200},
                                                   {kBroadcom, 0x1760, "BCM57608", 400},
                                                   {kHpe, 0x0501, "Slingshot 200Gb", 200},
                                                   {kIntel, 0x1592, "E810-C", 100},
                                                   {kAmazon, 0xec20, "Elastic Network Adapter", 0},
                                                   {kIntel, 0x1521, "I350", 0},
                                                   {kIntel, 0x1563, "X550", 0},
                                                   {kIntel, 0x1572, "X710", 0},
                                                   {kBroadcom, 0x16d8, "BCM57416", 0}}};

}  // namespace

const GpuProduct* find_gpu_product(std::string_view name) {
  const auto* const at = std::ranges::find(kGpuProducts, name, &GpuProduct::name);
  return at == kGpuProducts.end() ? nullptr : at;
}

const GpuProduct* find_gpu_product(std::int64_t vendor, std::int64_t device_id) {
  const auto* const at = std::ranges::find_if(kGpuProducts, [&](const GpuProduct& product) {
    return product.vendor == vendor && product.device_id == device_id;
  });
  return at == kGpuProducts.end() ? nullptr : at;
}

const GpuProduct* product_of_kind(std::string_view kind) {
  const auto* const at = std::ranges::find(kGpuProducts, kind, &GpuProduct::kind);
  return at == kGpuProducts.end() ? nullptr : at;
}

std::string amd_architecture(std::string_view gcn) {
  if (gcn.starts_with("gfx")) return std::string(gcn.substr(0, gcn.find(':')));
  if (gcn == "910") return "gfx90a";
  return "gfx" + std::string(gcn);
}

std::string amd_architecture_of(std::string_view kind) {
  if (kind == "MI60") return "gfx906";
  if (kind == "MI100") return "gfx908";
  if (kind.starts_with("MI2")) return "gfx90a";
  if (kind.starts_with("MI35")) return "gfx950";
  return kind.starts_with("MI3") ? "gfx942" : "";
}

std::string_view amd_kind_of(std::string_view architecture, std::int64_t units) {
  constexpr std::int64_t kOfMi250x = 110, kOfMi300a = 228;
  if (architecture == "gfx906") return "MI60";
  if (architecture == "gfx908") return "MI100";
  if (architecture == "gfx90a") return units == 0 || units == kOfMi250x ? "MI250X" : "MI250";
  if (architecture.starts_with("gfx94")) return units == kOfMi300a ? "MI300A" : "MI300X";
  if (architecture == "gfx950") return "MI355X";
  return "";
}

const NicProduct* find_nic_product(std::int64_t vendor, std::int64_t device_id) {
  const auto* const at = std::ranges::find_if(kNicProducts, [&](const NicProduct& nic) {
    return nic.vendor == vendor && nic.device_id == device_id;
  });
  return at == kNicProducts.end() ? nullptr : at;
}

}  // namespace pipesim
