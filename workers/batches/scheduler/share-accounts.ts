/** `loads`: how many accounts each worker has. */
type Sharing = {
  accounts: readonly string[];
  loads: ReadonlyMap<string, number>;
  sharedMax: number;
  random: () => number;
};

/** One account after another for the worker that has the fewest; a worker gets `sharedMax` of them at most, and the rest waits. */
export function shareAccounts({ accounts, loads, sharedMax, random }: Sharing): Map<string, string[]> {
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
