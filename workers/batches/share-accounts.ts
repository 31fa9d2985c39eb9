/** `loads` is the number of accounts that each worker has. */
type ShareOptions = {
  accounts: readonly string[];
  loads: ReadonlyMap<string, number>;
  sharedMax: number;
  random: () => number;
};

/** Assigns each account to the worker that has the fewest. A worker gets at most `sharedMax` of them, and the rest is left out. */
export function shareAccounts({ accounts, loads, sharedMax, random }: ShareOptions): Map<string, string[]> {
  const places = [...loads].flatMap(([worker, load]) =>
    Array.from({ length: sharedMax }, (_, index) => ({ worker, load: load + index, lot: random() })),
  );
  places.sort((one, other) => one.load - other.load || one.lot - other.lot);
  const shares = new Map<string, string[]>();
  for (const [index, { worker }] of places.slice(0, accounts.length).entries()) {
    const account = accounts[index];
    if (account !== undefined) shares.set(worker, [...(shares.get(worker) ?? []), account]);
  }
  return shares;
}
