/** `YYYY-MM`, in UTC. */
export const monthOf = (ms: number) => new Date(ms).toISOString().slice(0, 7);

/** The month `by` months after this one. */
export function shiftMonth(month: string, by: number): string {
  return monthOf(Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5)) - 1 + by));
}
