// Bucket bounds of histograms, shared so that the same quantity is cut the same way everywhere.
#pragma once

#include <vector>

namespace anchorage::observe {

std::vector<double> TimeToFirstTokenBuckets();  // seconds
std::vector<double> InterTokenBuckets();        // seconds
std::vector<double> RequestDurationBuckets();   // seconds
std::vector<double> StageDurationBuckets();     // seconds: from a tokenizer call to a long decode
std::vector<double> TransferDurationBuckets();  // seconds
std::vector<double> TransferSizeBuckets();      // bytes: 2^11 to 2^35, each 4 times the last
std::vector<double> CompressionRatioBuckets();  // uncompressed / on the wire
std::vector<double> TokenCountBuckets();        // 1-2-5 series to 200,000
std::vector<double> BatchSizeBuckets();         // sequences: powers of two to 1,024

}  // namespace anchorage::observe
