import { defineTool } from "eve/tools";
import { acts } from "../lib/shop";

export default defineTool(acts("pay", "Do something that costs."));
