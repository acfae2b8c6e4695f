// Random cases of ai.onnx.ml and of the operators on text.

const maybe = (r, attributes) => Object.fromEntries(Object.entries(attributes).filter(() => r.chance(0.6)));
const floats = (r, n, low = -2, high = 2) => ({floats: Array.from({length: n}, () => r.real(low, high))});
const ml = (node) => ({domain: 'ai.onnx.ml', domainOpset: 1, opset: 15, outputs: 1, ...node});
const TRANSFORMS = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO'];
const INPUTS = ['float32', 'float64', 'int64', 'int32'];
const labels = (r, n, ints = 'classlabels_ints') => (r.chance(0.5) ? {[ints]: {ints: Array.from({length: n}, (_, i) => 10 + 3 * i)}} : {classlabels_strings: {strings: Array.from({length: n}, (_, i) => `c${i}`)}});

// A random tree of the older form, as columns; leaves vote through `vote`.
function grow(r, tree, features, columns, vote) {
  const next = () => columns.nodes_nodeids.ints.filter((_, i) => columns.nodes_treeids.ints[i] === tree).length;
  const build = (depth) => {
    const id = next(), leaf = depth === 0 || r.chance(0.25), at = columns.nodes_nodeids.ints.length;
    columns.nodes_treeids.ints.push(tree);
    columns.nodes_nodeids.ints.push(id);
    columns.nodes_featureids.ints.push(leaf ? 0 : r.int(0, features - 1));
    columns.nodes_values.floats.push(leaf ? 0 : Math.fround(r.int(-3, 3) / 2));
    columns.nodes_modes.strings.push(leaf ? 'LEAF' : columns.mode ?? r.pick(['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ']));
    columns.nodes_missing_value_tracks_true.ints.push(r.int(0, 1));
    columns.nodes_truenodeids.ints.push(0);
    columns.nodes_falsenodeids.ints.push(0);
    if (leaf) vote(tree, id);
    else {
      columns.nodes_truenodeids.ints[at] = build(depth - 1);
      columns.nodes_falsenodeids.ints[at] = build(depth - 1);
    }
    return id;
  };
  build(3);
}

function forest(r, prefix, targets, features, weights) {
  const c = {mode: r.chance(0.6) ? 'BRANCH_LEQ' : undefined, nodes_treeids: {ints: []}, nodes_nodeids: {ints: []}, nodes_featureids: {ints: []}, nodes_values: {floats: []}, nodes_modes: {strings: []},
    nodes_missing_value_tracks_true: {ints: []}, nodes_truenodeids: {ints: []}, nodes_falsenodeids: {ints: []}};
  const v = {[`${prefix}_treeids`]: {ints: []}, [`${prefix}_nodeids`]: {ints: []}, [`${prefix}_ids`]: {ints: []}, [`${prefix}_weights`]: {floats: []}};
  for (let tree = 0, trees = r.int(1, 4); tree < trees; ++tree)
    grow(r, tree, features, c, (t, id) => {
      for (const target of targets(r)) {
        v[`${prefix}_treeids`].ints.push(t);
        v[`${prefix}_nodeids`].ints.push(id);
        v[`${prefix}_ids`].ints.push(target);
        v[`${prefix}_weights`].floats.push(weights(r));
      }
    });
  delete c.mode;
  return {...c, ...v};
}

function rows(r, features) {
  const type = r.pick(['float32', 'float32', 'float64', 'int64', 'int32']), n = r.int(1, 5);
  const x = r.tensor(type, [n, features], -3, 3);
  if (type === 'float32' && r.chance(0.2)) x.data[r.int(0, x.data.length - 1)] = NaN;
  return x;
}

export const classical = {
  ArrayFeatureExtractor: (r) => { const shape = r.fullShape(1, 3); return ml({op: 'ArrayFeatureExtractor', inputs: [r.tensor(r.pick([...INPUTS, 'string']), shape), r.tensor('int64', [r.int(1, 4)], 0, shape[shape.length - 1] - 1)]}); },
  Binarizer: (r) => ml({op: 'Binarizer', inputs: [r.tensor(r.pick(INPUTS), r.fullShape(1, 3))], attributes: maybe(r, {threshold: r.real(-1, 1)})}),
  Scaler: (r) => { const shape = r.fullShape(2, 2), n = r.pick([1, shape[1]]); return ml({op: 'Scaler', inputs: [r.tensor(r.pick(INPUTS), shape)], attributes: {offset: floats(r, n), scale: floats(r, n)}}); },
  Normalizer: (r) => ml({op: 'Normalizer', inputs: [r.tensor(r.pick(INPUTS), r.fullShape(1, 2))], attributes: {norm: r.pick(['MAX', 'L1', 'L2'])}}),
  Imputer: (r) => {
    const shape = r.fullShape(2, 2), n = r.pick([1, shape[1]]), type = r.pick(['float32', 'int64']), x = r.tensor(type, shape, -1, 1);
    if (type === 'int64') return ml({op: 'Imputer', inputs: [x], attributes: {imputed_value_int64s: {ints: Array.from({length: n}, () => r.int(5, 9))}, replaced_value_int64: BigInt(r.int(-1, 1))}});
    x.data.forEach((_, i) => { if (r.chance(0.3)) x.data[i] = NaN; });
    return ml({op: 'Imputer', inputs: [x], attributes: {imputed_value_floats: floats(r, n), replaced_value_float: NaN}});
  },
  OneHotEncoder: (r) => {
    const strings = r.chance(0.4), x = strings ? r.tensor('string', r.fullShape(1, 2)) : r.tensor(r.pick(INPUTS), r.fullShape(1, 2), -2, 2);
    return ml({op: 'OneHotEncoder', inputs: [x], attributes: strings ? {cats_strings: {strings: ['a', 'foo', 'bar', '12']}} : {cats_int64s: {ints: [0, 1, -1, 2]}}});
  },
  LabelEncoder: (r) => {
    const kinds = {int64: {keys_int64s: {ints: [0, 1, 2]}}, string: {keys_strings: {strings: ['a', 'foo', 'bar']}}, float32: {keys_floats: {floats: [0, 1, 2]}}};
    const values = {int64: {values_int64s: {ints: [5, 6, 7]}, ...maybe(r, {default_int64: 9n})}, string: {values_strings: {strings: ['x', 'y', 'z']}, ...maybe(r, {default_string: 'none'})}, float32: {values_floats: {floats: [0.5, 1.5, 2.5]}, ...maybe(r, {default_float: 0.25})}};
    const [from, to] = r.pick([['int64', 'string'], ['string', 'int64'], ['int64', 'float32'], ['float32', 'int64'], ['string', 'string'], ['int64', 'int64'], ['float32', 'float32'], ['string', 'float32'], ['float32', 'string']]);
    const x = r.tensor(from, r.fullShape(1, 2), 0, 3);
    if (from === 'float32') x.data.forEach((v, i) => { x.data[i] = Math.round(v); });
    return ml({op: 'LabelEncoder', domainOpset: 2, inputs: [x], attributes: {...kinds[from], ...values[to]}});
  },
  CategoryMapper: (r) => ml({op: 'CategoryMapper', inputs: [r.chance(0.5) ? r.tensor('string', r.fullShape(1, 2)) : r.tensor('int64', r.fullShape(1, 2), 0, 4)], attributes: {cats_int64s: {ints: [1, 2, 3]}, cats_strings: {strings: ['a', 'foo', 'B']}, ...maybe(r, {default_int64: -5n, default_string: 'no'})}}),
  FeatureVectorizer: (r) => {
    const n = r.int(1, 4), type = r.pick(INPUTS), sizes = Array.from({length: r.int(1, 3)}, () => r.int(1, 4));
    return ml({op: 'FeatureVectorizer', inputs: sizes.map((s) => r.tensor(type, [n, s])), attributes: {inputdimensions: {ints: sizes}}});
  },
  LinearRegressor: (r) => {
    const features = r.int(1, 4), targets = r.int(1, 3);
    return ml({op: 'LinearRegressor', inputs: [r.tensor('float32', [r.int(1, 4), features])], attributes: {coefficients: floats(r, targets * features), targets: BigInt(targets), ...(r.chance(0.7) ? {intercepts: floats(r, targets)} : {}), post_transform: r.pick(TRANSFORMS)}});
  },
  LinearClassifier: (r) => {
    const features = r.int(1, 4), classes = r.int(2, 4), models = classes === 2 && r.chance(0.4) ? 1 : classes;
    return ml({op: 'LinearClassifier', outputs: 2, inputs: [r.tensor(r.pick(INPUTS), [r.int(1, 4), features])], attributes: {coefficients: floats(r, models * features), intercepts: floats(r, models), post_transform: r.pick(TRANSFORMS), ...labels(r, classes)}});
  },
  SVMRegressor: (r) => {
    const features = r.int(1, 4), n = r.int(1, 4);
    return ml({op: 'SVMRegressor', inputs: [r.tensor('float32', [r.int(1, 4), features])], attributes: {n_supports: BigInt(n), support_vectors: floats(r, n * features), coefficients: floats(r, n), rho: floats(r, 1), kernel_type: r.pick(['LINEAR', 'POLY', 'RBF', 'SIGMOID']), kernel_params: {floats: [r.real(0.1, 1), r.real(0, 1), r.int(1, 3)]}, ...maybe(r, {one_class: BigInt(r.int(0, 1))})}});
  },
  SVMClassifier: (r) => {
    const features = r.int(1, 4), classes = r.int(2, 4), per = Array.from({length: classes}, () => r.int(1, 3)), n = per.reduce((a, b) => a + b), pairs = (classes * (classes - 1)) / 2;
    const attributes = {vectors_per_class: {ints: per}, support_vectors: floats(r, n * features), coefficients: floats(r, n * (classes - 1)), rho: floats(r, pairs), kernel_type: r.pick(['LINEAR', 'POLY', 'RBF', 'SIGMOID']), kernel_params: {floats: [r.real(0.1, 1), r.real(0, 1), r.int(1, 3)]}, ...labels(r, classes), post_transform: r.pick(['NONE', 'NONE', 'LOGISTIC', 'SOFTMAX'])};
    if (r.chance(0.4)) Object.assign(attributes, {prob_a: floats(r, pairs, -2, -0.5), prob_b: floats(r, pairs, -0.2, 0.2)});
    return ml({op: 'SVMClassifier', outputs: 2, inputs: [r.tensor(r.pick(INPUTS), [r.int(1, 4), features])], attributes});
  },
  TreeEnsembleRegressor: (r) => {
    const features = r.int(1, 4), targets = r.int(1, 3);
    return ml({op: 'TreeEnsembleRegressor', inputs: [rows(r, features)], attributes: {...forest(r, 'target', (q) => (q.chance(0.3) ? [q.int(0, targets - 1), q.int(0, targets - 1)] : [q.int(0, targets - 1)]), features, (q) => q.real(-2, 2)), n_targets: BigInt(targets), ...maybe(r, {aggregate_function: r.pick(['SUM', 'AVERAGE', 'MIN', 'MAX']), base_values: floats(r, targets)})}});
  },
  TreeEnsembleClassifier: (r) => {
    const features = r.int(1, 4), classes = r.int(2, 4), oneSided = classes === 2 && r.chance(0.6), positive = r.chance(0.5);
    return ml({op: 'TreeEnsembleClassifier', outputs: 2, inputs: [rows(r, features)], attributes: {...forest(r, 'class', (q) => (oneSided ? [0] : Array.from({length: classes}, (_, i) => i).filter(() => q.chance(0.7))), features, (q) => q.real(positive ? 0 : -1, 1)), ...labels(r, classes, 'classlabels_int64s'), post_transform: r.pick(TRANSFORMS)}});
  },
  StringNormalizer: (r) => ({op: 'StringNormalizer', opset: 10, outputs: 1, inputs: [r.tensor('string', r.chance(0.5) ? [r.int(1, 5)] : [1, r.int(1, 5)])], attributes: {case_change_action: r.pick(['NONE', 'LOWER', 'UPPER']), is_case_sensitive: BigInt(r.int(0, 1)), ...maybe(r, {stopwords: {strings: ['foo', 'B']}})}}),
  StringConcat: (r) => { const shape = r.shape(0, 3); return {op: 'StringConcat', opset: 20, outputs: 1, inputs: [r.tensor('string', shape), r.tensor('string', r.broadcastTo(shape))]}; },
  StringSplit: (r) => { const x = r.tensor('string', r.fullShape(1, 2)); x.data = x.data.map((s) => `${s} x ${s},y`); return {op: 'StringSplit', opset: 20, outputs: 2, inputs: [x], attributes: maybe(r, {delimiter: r.pick([' ', ',', 'x']), maxsplit: BigInt(r.int(1, 3))})}; },
  RegexFullMatch: (r) => ({op: 'RegexFullMatch', opset: 20, outputs: 1, inputs: [r.tensor('string', r.fullShape(1, 2))], attributes: {pattern: r.pick(['foo', '[a-z]+', '.*bar', '(foo|bar)?', '\\d+', 'F.. b.*'])}}),
  TfIdfVectorizer: (r) => {
    const mode = r.pick(['TF', 'IDF', 'TFIDF']), x = r.tensor('int64', r.chance(0.5) ? [r.int(1, 8)] : [r.int(1, 3), r.int(1, 8)], 0, 4);
    return {op: 'TfIdfVectorizer', opset: 9, outputs: 1, inputs: [x], attributes: {mode, min_gram_length: BigInt(r.int(1, 2)), max_gram_length: 2n, max_skip_count: BigInt(r.int(0, 2)), ngram_counts: {ints: [0, 3]}, ngram_indexes: {ints: [0, 1, 2, 3, 4]}, pool_int64s: {ints: [0, 1, 2, 1, 2, 3, 4]}, ...(mode === 'TF' ? {} : {weights: {floats: [0.5, 1, 2, 3, 4]}})}};
  },
};
