type Page<Item, Shown> = {
  /** Up to `limit` items, and one more if there are more. */
  found: readonly Item[];
  limit: number;
  present: (item: Item) => Shown;
};

/** OpenAI's list object with the first `limit` items. */
export function presentList<Item, Shown extends { id: string }>({ found, limit, present }: Page<Item, Shown>) {
  const data = found.slice(0, limit).map(present);
  const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: 'list', data, first_id, last_id, has_more: found.length > limit };
}
