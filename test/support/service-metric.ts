type Process = { operationsUrl: string };

/** The current values of these metrics of one process, each summed over its labels. 0 for a missing metric. */
export async function serviceMetrics({ operationsUrl }: Process, names: readonly string[]): Promise<number[]> {
  const text = await (await fetch(`${operationsUrl}/metrics`)).text();
  return names.map((name) => {
    const lines = text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'));
    return [...lines].reduce((sum, [, value]) => sum + Number(value), 0);
  });
}

/** One metric summed over several processes. */
export async function serviceTotal(processes: readonly Process[], name: string): Promise<number> {
  const values = await Promise.all(processes.map((each) => serviceMetrics(each, [name])));
  return values.flat().reduce((sum, value) => sum + value, 0);
}
