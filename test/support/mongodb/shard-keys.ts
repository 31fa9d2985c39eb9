/** The collections that operators may shard, with their keys (`ingress/documentation/mongodb.md`). */
export const shardKeys: Readonly<Record<string, Readonly<Record<string, 'hashed' | 1>>>> = {
  usage_records: { _id: 'hashed' },
  usage_sums: { _id: 'hashed' },
  usage_days: { account: 'hashed' },
  usage_hours: { account: 'hashed' },
  usage_refusals: { account: 'hashed' },
  'file_bytes.chunks': { files_id: 1, n: 1 },
};

/**
 * Commands without the shard key, with the fields of their filter, and why they may ask all shards. Those that list or find a request run
 * in requests. The others never do.
 */
export const knownExceptions: Readonly<Record<string, string>> = {
  'find usage_records account,entry,month': 'repairs a month from its records',
  'find usage_records account,month': 'lists the months of an account, for reconcile and the removal of devices',
  'find usage_records account': 'lists the accounts with usage, for reconcile, and the latest requests of one',
  'find usage_records month': 'finds old months',
  'find usage_records account,admittedAt': 'lists the requests of an account',
  'find usage_records _id,account,admittedAt': 'lists the requests of an account, within a millisecond',
  'find usage_records account,answerId': 'finds a request by the id of its answer',
  'delete usage_records _id,month': 'removes old months',
  'delete usage_records month': 'removes old months',
  'find usage_sums account,month': 'lists the months of an account, for reconcile and the removal of devices',
  'find usage_sums account': 'lists the accounts with usage, for reconcile',
  'find usage_sums month': 'finds old months',
  'delete usage_sums _id,month': 'removes old months',
  'delete usage_sums month': 'removes old months',
  'find usage_days month': 'finds old months, and reads the first details of all accounts',
  'find usage_days _id,month': 'reads the details of all accounts, for the report of operators',
  'delete usage_days _id,month': 'removes old months',
  'delete usage_days month': 'removes old months',
  'find usage_hours month': 'finds old months',
  'delete usage_hours _id,month': 'removes old months',
  'delete usage_hours month': 'removes old months',
  'aggregate usage_hours start': 'sums an hour of all accounts, for operators',
  'find usage_hours start': 'finds old hours',
  'delete usage_hours _id,start': 'removes old hours',
  'delete usage_hours start': 'removes old hours',
  'aggregate usage_refusals start': 'sums an hour of all accounts, for operators',
  'find usage_refusals start': 'finds old hours',
  'delete usage_refusals _id,start': 'removes old hours',
  'delete usage_refusals start': 'removes old hours',
};

/** Commands that read a whole collection, and why they may: no process repeats them without a request. */
export const knownScans: Readonly<Record<string, string>> = {
  'delete schema checkedAt': 'the collection has a document, and one of each process that starts',
};
