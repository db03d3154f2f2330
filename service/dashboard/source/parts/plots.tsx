// Small plots: each has a sentence beside it that says the same.

export interface Series {
  name: string;
  points: [number, number][];
}

const WIDTH = 320;
const HEIGHT = 96;

// Lines over a common horizontal axis; each series has its own vertical range.
export function LinePlot(props: { series: Series; label: string; range?: [number, number]; dots?: boolean }) {
  const { points } = props.series;
  if (points.length < (props.dots ? 1 : 2)) return null;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [low, high] = props.range ?? [Math.min(...ys), Math.max(...ys)];
  const first = Math.min(...xs);
  const scaleX = (WIDTH - 8) / Math.max(Math.max(...xs) - first, 1e-9);
  const scaleY = (HEIGHT - 12) / Math.max(high - low, 1e-9);
  const places = points.map(([x, y]) => [(4 + (x - first) * scaleX).toFixed(1), (HEIGHT - 6 - (y - low) * scaleY).toFixed(1)] as const);
  const last = ys[ys.length - 1] ?? 0;
  return (
    <figure class="plot">
      <figcaption>
        {props.series.name} <strong>{short(last)}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={props.label}>
        <line class="axis" x1="4" y1={HEIGHT - 6} x2={WIDTH - 4} y2={HEIGHT - 6} />
        <polyline class="curve" points={places.map((place) => place.join()).join(" ")} />
        {props.dots && places.map(([x, y]) => <circle key={`${x} ${y}`} class="mark" cx={x} cy={y} r="3" />)}
      </svg>
      <span class="muted small">
        {short(low)} to {short(high)}
      </span>
    </figure>
  );
}

// One value on a scale, with a band that is usual.
export function Strip(props: {
  value: number;
  low: number;
  high: number;
  band?: [number, number];
  label: string;
}) {
  const position = (value: number) =>
    4 + ((Math.min(Math.max(value, props.low), props.high) - props.low) / (props.high - props.low)) * 192;
  return (
    <svg class="strip" viewBox="0 0 200 22" role="img" aria-label={props.label}>
      <line class="axis" x1="4" y1="11" x2="196" y2="11" />
      {props.band !== undefined && (
        <rect
          class="band"
          x={position(props.band[0])}
          y="5"
          width={Math.max(position(props.band[1]) - position(props.band[0]), 2)}
          height="12"
        />
      )}
      <circle class="mark" cx={position(props.value)} cy="11" r="5" />
    </svg>
  );
}

function short(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}
